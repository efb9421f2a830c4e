//! Decodes the body of a response while it is received. Only a few pieces are in memory at a time.

use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes, BytesMut};
use kube::client::Body;
use tokio::sync::mpsc;

use super::request::{Failure, chunk};

/// Size of a piece in bytes. If a body is longer, the next piece is received while another thread decodes.
const PIECE: usize = 1 << 18;

/// Decodes a body with `decode`, on another thread if it is longer than one piece.
pub(super) async fn decode<V: Send + 'static>(
    mut body: Body,
    decode: impl FnOnce(&mut dyn BufRead) -> Result<V, String> + Send + 'static,
) -> Result<V, Failure> {
    let (first, more) = piece(&mut body).await?;
    if !more {
        return decode(&mut &first[..]).map_err(Failure::Malformed);
    }
    let (sender, rest) = mpsc::channel(1);
    let mut stream = BodyReader { piece: first, rest };
    let decoding = tokio::task::spawn_blocking(move || decode(&mut stream));
    let receiving = async move {
        loop {
            let (next, more) = piece(&mut body).await?;
            // Stop if the decoder has ended early with an error.
            if sender.send(next).await.is_err() || !more {
                return Ok(());
            }
        }
    };
    let (received, decoded) = futures::join!(receiving, decoding);
    received?;
    decoded.unwrap_or_else(|error| Err(error.to_string())).map_err(Failure::Malformed)
}

/// Receives the next piece; also returns whether another piece follows.
async fn piece(body: &mut Body) -> Result<(Bytes, bool), Failure> {
    let mut piece = BytesMut::with_capacity(2 * PIECE);
    while piece.len() < PIECE {
        match chunk(body).await? {
            Some(data) => piece.extend_from_slice(&data),
            None => return Ok((piece.freeze(), false)),
        }
    }
    Ok((piece.freeze(), true))
}

/// Reader over the pieces of a body; blocks until the next piece.
struct BodyReader {
    piece: Bytes,
    rest: mpsc::Receiver<Bytes>,
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() {
            match self.rest.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => break,
            }
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}
