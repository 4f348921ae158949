//! Metrics over HTTP: as little of it as a scraper needs.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::core::Input;
use super::listen;

/// Octets of a request at most.
const MAX_REQUEST: usize = 8 << 10;

/// How long one request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests at a time.
const MOST: usize = 16;

pub(super) async fn serve(listener: TcpListener, core: mpsc::Sender<Input>) {
    let mut requests = JoinSet::new();
    loop {
        let stream = listen::accept(&listener).await;
        while requests.len() >= MOST {
            requests.join_next().await;
        }
        while requests.try_join_next().is_some() {}
        let core = core.clone();
        requests.spawn(tokio::time::timeout(PATIENCE, answer(stream, core)));
    }
}

async fn answer(mut stream: TcpStream, core: mpsc::Sender<Input>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= MAX_REQUEST || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|octet| *octet == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
    let mut words = line.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics" | "/")) => {
            let (ask, answered) = oneshot::channel();
            // Without a core there is no answer either.
            let _ = core.send(Input::Metrics(ask)).await;
            match answered.await {
                Ok(text) => ("200 OK", text),
                Err(_) => ("503 Service Unavailable", String::new()),
            }
        }
        (Some("GET"), _) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", String::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
