//! The runtime of one side ends before its endpoint is closed, as when `main` returns.

use std::thread;

use carrick::{Association, CloseReason, ConnectOptions, RecvError};
use tokio::runtime::{Builder, Runtime};

use crate::support::{content, endpoint, ip, on, soon, to};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Runs a program against a server until its runtime ends. Returns the messages that the server received,
/// and how the association ended there.
async fn served<F: Future<Output = Association>>(
    runtime: fn() -> Runtime,
    program: impl FnOnce(u16, ConnectOptions) -> F + Send + 'static,
) -> (Vec<usize>, Result<(), RecvError>) {
    let server = endpoint(&["127.0.0.1"]);
    let (port, options) = (server.port(), to(&server));
    let program = thread::spawn(move || {
        let runtime = runtime();
        let association = runtime.block_on(program(port, options));
        // `main` drops its variables, then the runtime.
        drop(association);
        drop(runtime);
    });
    let mut association = soon("set-up", server.accept()).await.unwrap().accept();
    let mut sizes = Vec::new();
    let end = loop {
        match soon("message or end", association.recv()).await {
            Ok(Some(message)) => sizes.push(message.payload.len()),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    program.join().unwrap();
    (sizes, end)
}

fn was_aborted(end: &Result<(), RecvError>) -> bool {
    matches!(end, Err(RecvError::Ended(CloseReason::AbortedByPeer(cause)))
        if cause.code == 12 && cause.information == b"the program at the other end has ended")
}

async fn connected(port: u16, options: ConnectOptions) -> Association {
    let client = endpoint(&["127.0.0.1"]);
    let peer = (ip("127.0.0.1"), port);
    client.connect_with(peer, options).await.unwrap()
}

/// RFC 9260, section 7.2.1: messages within the initial congestion window leave when the runtime ends,
/// although the endpoint's task did not run after `send` accepted them.
#[tokio::test]
async fn accepted_messages_leave_when_the_runtime_ends() {
    for runtime in [one_thread, two_threads] {
        for _ in 0..20 {
            let (sizes, end) = served(runtime, |port, options| async move {
                let association = connected(port, options).await;
                for number in 0..3 {
                    let sent = association.send(content(number, 1000), on(0)).await;
                    sent.unwrap();
                }
                association
            })
            .await;
            assert_eq!(sizes, [1000; 3]);
            // A shutdown may have been complete before.
            assert!(end.is_ok() || was_aborted(&end), "{end:?}");
        }
    }
}

/// RFC 9260, section 6.1: small messages behind an unacknowledged one are not held back.
#[tokio::test]
async fn small_messages_leave_when_the_runtime_ends() {
    let (sizes, end) = served(one_thread, |port, options| async move {
        let association = connected(port, options).await;
        for number in 0..3 {
            association.send(content(number, 5), on(0)).await.unwrap();
            tokio::task::yield_now().await;
        }
        association
    })
    .await;
    assert_eq!(sizes, [5; 3]);
    assert!(end.is_ok() || was_aborted(&end), "{end:?}");
}

/// The peer gets an ABORT with a reason, also if more data was queued than could be sent.
#[tokio::test]
async fn the_peer_gets_an_abort_when_the_runtime_ends() {
    for runtime in [one_thread, two_threads] {
        let (_, end) = served(runtime, |port, options| async move {
            let association = connected(port, options).await;
            // More data than any window.
            let sent = association.sender().try_send(content(0, 200_000), on(0));
            sent.unwrap();
            // As a handle in a static variable: no shutdown precedes.
            std::mem::forget(association.sender());
            association
        })
        .await;
        assert!(was_aborted(&end), "{end:?}");
    }
}
