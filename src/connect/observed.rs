//! A body that is looked at as it comes.

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::combinators::MapFrame;

/// What looks at data; it is dropped with the body, at its end or where that is given up.
pub(super) trait Observer: Send + 'static {
    fn data(&mut self, bytes: &Bytes);
}

pub(super) type Observed<B> = MapFrame<B, Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>>;

/// The same body, seen by an observer, where there is one.
pub(super) fn observed<B>(body: B, mut observer: Option<impl Observer>) -> Observed<B>
where
    B: http_body::Body<Data = Bytes>,
{
    body.map_frame(Box::new(move |frame| {
        if let (Some(observer), Some(bytes)) = (&mut observer, frame.data_ref()) {
            observer.data(bytes);
        }
        frame
    }))
}
