//! Metrics over HTTP.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::AcceptFailures;

/// Octets of a request's head at most.
const MAX_REQUEST: usize = 8 << 10;

/// How long one request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests at a time.
const MOST: usize = 16;

/// Answers requests for metrics over HTTP, at most 16 at a time and in 5 s each. `ask` gives the text;
/// `None` when there is none any more. Connections that can't be accepted are counted in `failures`.
pub async fn serve_metrics<F, A>(listener: TcpListener, failures: AcceptFailures, ask: F)
where
    F: Fn() -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Option<String>> + Send + 'static,
{
    let mut requests = JoinSet::new();
    loop {
        let (stream, _) = failures.accept(&listener).await;
        while requests.len() >= MOST {
            requests.join_next().await;
        }
        while requests.try_join_next().is_some() {}
        let talk = talk(stream, ask.clone());
        requests.spawn(tokio::time::timeout(PATIENCE, talk));
    }
}

/// One request of a connection, and the end.
async fn talk<A: Future<Output = Option<String>>>(stream: TcpStream, ask: impl Fn() -> A) {
    let service = service_fn(|request| answer(request, &ask));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever asks so that it fails has no answer.
    let _ = connection.await;
}

async fn answer<A: Future<Output = Option<String>>>(
    request: Request<Incoming>,
    ask: impl Fn() -> A,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics" | "/") => match ask().await {
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
    let plain = HeaderValue::from_static("text/plain; version=0.0.4");
    headers.insert(CONTENT_TYPE, plain);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    Ok(response)
}
