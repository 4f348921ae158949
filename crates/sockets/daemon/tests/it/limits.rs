//! Limits of users, and programs that do not read.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use carrick_daemon::{Limits, list};
use carrick_ipc::{FrameKind, Header, Request};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::support::{
    STREAM, accepted_from, ask, client, config, connected, connected_to_itself, loopback,
    send_frame, serve,
};

#[tokio::test]
async fn the_descriptors_of_a_user_are_limited() {
    let mut config = config("limits");
    config.limits = Limits {
        clients: 2,
        descriptors: 3,
    };
    serve(config, |path| {
        let first = client(&path);
        let mut open: Vec<OwnedFd> = Vec::new();
        for _ in 0..3 {
            open.push(ask(&first, &STREAM, None).1.unwrap());
        }
        assert_eq!(ask(&first, &STREAM, None).0, 24, "EMFILE");
        open.clear();
        // The daemon sees the end of the descriptors with its next turn.
        let mut again = ask(&first, &STREAM, None);
        for _ in 0..100 {
            if again.0 == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            again = ask(&first, &STREAM, None);
        }
        assert_eq!(again.0, 0);

        let _second = client(&path);
        let third = client(&path);
        assert_eq!(ask(&third, &STREAM, None).0, 24, "EMFILE");
        let mut byte = [0];
        assert_eq!(recv(&third, &mut byte, RecvFlags::empty()), Ok((0, 0)));
        // The answer needs no room among the clients, but is limited as well.
        let idle: Vec<OwnedFd> = (0..16).map(|_| client(&path)).collect();
        let late = client(&path);
        let ended = recv(&late, &mut byte, RecvFlags::empty());
        assert!(
            matches!(ended, Ok((0, _)) | Err(Errno::CONNRESET)),
            "{ended:?}"
        );
        drop(idle);
    })
    .await;
}

/// A program may keep a pair that the daemon takes for closed.
#[tokio::test]
async fn pairs_that_are_kept_open_count() {
    let mut config = config("departed");
    config.limits.descriptors = 3;
    serve(config, |path| {
        let client = client(&path);
        let mut kept = Vec::new();
        let refused = loop {
            match ask(&client, &STREAM, None) {
                (0, Some(pair)) if kept.len() < 2000 => {
                    rustix::net::shutdown(&pair, rustix::net::Shutdown::Both).unwrap();
                    kept.push(pair);
                }
                (error, _) => break error,
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(refused, 24, "EMFILE");
        kept.clear();
        while ask(&client, &STREAM, None).0 != 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    })
    .await;
}

/// Accepted associations and branches are descriptors as well.
#[tokio::test]
async fn associations_wait_for_descriptors_in_the_backlog() {
    let mut config = connected_to_itself("waiting");
    config.limits.descriptors = 4;
    serve(config, |path| {
        let client = client(&path);
        let (listener, first) = connected(&client, 5000);
        let connect = Request::Connect {
            addresses: &loopback(5000),
        };
        // The third descriptor is that of the first association, and waits to be accepted.
        let second = ask(&client, &STREAM, None).1.unwrap();
        assert_eq!(ask(&client, &STREAM, None).0, 24, "EMFILE");
        assert_eq!(ask(&client, &connect, Some(second.as_fd())).0, 115);
        poll(&mut [PollFd::new(&second, PollFlags::OUT)], None).unwrap();
        let waiting = || {
            let mut waiting = 0;
            list(&path, |row| {
                waiting += row["waiting"].as_i64().unwrap_or(0);
                Ok(())
            })
            .unwrap();
            waiting
        };
        assert_eq!(waiting(), 1);
        let mut buffer = vec![0; 1024];
        let accepted = accepted_from(&listener, &mut buffer);
        drop((first, accepted));
        let second = accepted_from(&listener, &mut buffer);
        assert_eq!(waiting(), 0);
        drop(second);
    })
    .await;
}

#[tokio::test]
async fn the_associations_of_a_user_are_limited() {
    let mut config = connected_to_itself("share");
    config.max_associations_per_user = Some(2);
    serve(config, |path| {
        let client = client(&path);
        // Two ends.
        let (_listener, _socket) = connected(&client, 5000);
        let third = ask(&client, &STREAM, None).1.unwrap();
        let connect = Request::Connect {
            addresses: &loopback(5000),
        };
        let refused = ask(&client, &connect, Some(third.as_fd())).0;
        assert_eq!(refused, 12, "ENOMEM");
    })
    .await;
}

/// A program that does not read holds its own association up alone.
#[tokio::test]
async fn a_client_that_never_reads_harms_no_other() {
    serve(connected_to_itself("unread"), |path| {
        let [lazy, other] = [(); 2].map(|()| client(&path));
        let (_listener, full) = connected(&lazy, 5000);
        let info = Header::new(FrameKind::Send).encode();
        let frame = [&info[..], &[0; 10_000]].concat();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut sent = 0;
        // Until nothing has been taken for a while.
        loop {
            while send(&full, &frame, flags).is_ok() {
                sent += 1;
            }
            let mut writable = [PollFd::new(&full, PollFlags::OUT)];
            let pause = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 500_000_000,
            };
            if poll(&mut writable, Some(&pause)).unwrap() == 0 {
                break;
            }
        }
        assert!(sent < 10_000, "{sent}");
        let (listener, socket) = connected(&other, 6000);
        let mut buffer = vec![0; 1 << 16];
        let accepted = accepted_from(&listener, &mut buffer);
        for _ in 0..100 {
            send_frame(&socket, 0);
            let (len, _) = recv(&accepted, &mut buffer[..], RecvFlags::empty()).unwrap();
            assert!(buffer[..len].ends_with(b"message"));
        }
    })
    .await;
}
