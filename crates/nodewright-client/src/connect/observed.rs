//! A response body that reports each chunk to an observer.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::combinators::MapFrame;

pub(super) type Observed<B> = MapFrame<B, Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>>;

/// Passes the data of the body to `look`, if given. `look` is dropped with the body: when the body is complete or
/// abandoned.
pub(super) fn observed<B>(body: B, mut look: Option<impl FnMut(&Bytes) + Send + 'static>) -> Observed<B>
where
    B: http_body::Body<Data = Bytes>,
{
    body.map_frame(Box::new(move |frame| {
        if let (Some(look), Some(bytes)) = (&mut look, frame.data_ref()) {
            look(bytes);
        }
        frame
    }))
}
