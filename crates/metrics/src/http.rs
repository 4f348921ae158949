//! Serves metrics over HTTP.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::AcceptFailures;

/// Format of the metrics.
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Maximum size of a request's head in octets.
const MAX_REQUEST: usize = 8 << 10;

/// Time limit of a request and its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent requests.
const MAX_REQUESTS: usize = 16;

/// Encodes metrics in the text format of `OpenMetrics`, which Prometheus reads.
pub fn encode_metrics(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, registry);
    text
}

/// Serves metrics over HTTP, at most 16 requests at a time and in 5 s each. `collect` returns the text, or
/// `None` once there are no metrics (503). Connections that can't be accepted are counted in `failures`.
pub async fn serve_metrics<F, A>(listener: TcpListener, failures: AcceptFailures, collect: F)
where
    F: Fn() -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Option<String>> + Send + 'static,
{
    let mut requests = JoinSet::new();
    loop {
        let (stream, _) = failures.accept(&listener).await;
        while requests.len() >= MAX_REQUESTS {
            requests.join_next().await;
        }
        while requests.try_join_next().is_some() {}
        let request = serve_request(stream, collect.clone());
        requests.spawn(tokio::time::timeout(REQUEST_TIMEOUT, request));
    }
}

/// Serves one request and closes the connection.
async fn serve_request<A: Future<Output = Option<String>>>(
    stream: TcpStream,
    collect: impl Fn() -> A,
) {
    let service = service_fn(|request| answer(request, &collect));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    // A malformed request gets no answer.
    let _ = connection.await;
}

async fn answer<A: Future<Output = Option<String>>>(
    request: Request<Incoming>,
    collect: impl Fn() -> A,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics" | "/") => match collect().await {
            Some(text) => (StatusCode::OK, text),
            None => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
        },
        (&Method::GET | &Method::HEAD, _) => {
            let text = "the metrics are at /metrics\n".to_owned();
            (StatusCode::NOT_FOUND, text)
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, String::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(CONTENT));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}
