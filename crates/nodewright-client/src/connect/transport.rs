//! Kube's connection without Nagle's algorithm.
//!
//! Kube leaves the algorithm on: the first response of every connection then waits 40 ms for an
//! acknowledgement. Proxied connections use kube's own transport.

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt, DynBody};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_http::decompression::DecompressionLayer;

/// The service type `GenericService` of kube's client builder.
type Service = BoxService<http::Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A client for a direct connection, without a proxy and without our own layers.
///
/// # Errors
///
/// Fails if certificates or headers cannot be used.
pub(super) fn direct(config: &kube::Config) -> kube::Result<ClientBuilder<Service>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let gzip = DecompressionLayer::new().gzip(!config.disable_compression);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(gzip)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client)
        .map_response(|response| response.map(boxed))
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace.clone()))
}

fn boxed<B>(body: B) -> Box<DynBody>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    Box::new(body.map_err(Into::into))
}
