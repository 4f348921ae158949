//! Two threads on one descriptor: messages of several frames stay whole.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use carrick_ipc::{FrameKind, Header, MAX_PAYLOAD};
use carrick_sockets::linux::MSG_EOR;

use crate::support::{TestSocket, call, message, parts};

/// Messages of each thread.
const MESSAGES: usize = 40;
/// Size of a message, of three frames.
const SIZE: usize = 2 * MAX_PAYLOAD + 100;

#[test]
fn large_messages_of_two_threads_do_not_mix() {
    let socket = TestSocket::established(&[]);
    thread::scope(|scope| {
        for value in [1_u8, 2] {
            let fd = socket.fd();
            scope.spawn(move || {
                let bytes = vec![value; SIZE];
                for _ in 0..MESSAGES {
                    assert_eq!(
                        call!(carrick write(fd, bytes.as_ptr().cast(), SIZE)),
                        Ok(SIZE as i64)
                    );
                }
            });
        }
        let (mut ends, mut current) = ([0; 3], Vec::new());
        while ends[1] + ends[2] < 2 * MESSAGES {
            let Some((header, _, payload)) = socket.sent_frame() else {
                thread::yield_now();
                continue;
            };
            current.extend(payload);
            if header.is_end {
                let value = current[0];
                assert_eq!(current.len(), SIZE);
                assert_eq!(current.iter().position(|byte| *byte != value), None);
                ends[usize::from(value)] += 1;
                current.clear();
            }
        }
        assert_eq!(ends, [0, MESSAGES, MESSAGES]);
    });
}

#[test]
fn messages_that_two_threads_receive_stay_whole() {
    let socket = TestSocket::established(&[]);
    let received = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut bytes = vec![0; SIZE + 1];
                loop {
                    let mut list = parts(&mut bytes, &[100, SIZE - 99]);
                    let mut header = message(&mut list);
                    let len =
                        call!(carrick recvmsg(socket.fd(), &raw mut header, 0)).unwrap() as usize;
                    if len == 1 {
                        // The end, once for each thread.
                        break;
                    }
                    assert_eq!((len, header.msg_flags), (SIZE, MSG_EOR));
                    let value = bytes[0];
                    assert!(bytes[..SIZE].iter().all(|byte| *byte == value));
                    received.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for at in 0..2 * MESSAGES {
            let bytes = vec![at as u8 + 1; SIZE];
            for (number, part) in bytes.chunks(MAX_PAYLOAD).enumerate() {
                let header = Header {
                    is_end: number == 2,
                    has_rest: number < 2,
                    ..Header::new(FrameKind::Message)
                };
                socket.deliver(&header, part);
            }
        }
        socket.deliver_message(b"e");
        socket.deliver_message(b"e");
    });
    assert_eq!(received.load(Ordering::Relaxed), 2 * MESSAGES);
}

/// The position in a message is that of the descriptor, not of the thread.
#[test]
fn threads_continue_at_one_position() {
    let socket = TestSocket::established(&[]);
    let sent: Vec<u8> = (0..200).collect();
    socket.deliver_message(&sent);
    let mut all: Vec<Vec<u8>> = thread::scope(|scope| {
        let read = || {
            let mut bytes = [0_u8; 10];
            let mut found = Vec::new();
            for _ in 0..10 {
                let len = call!(carrick read(socket.fd(), bytes.as_mut_ptr().cast(), 10));
                assert_eq!(len, Ok(10));
                found.push(bytes.to_vec());
            }
            found
        };
        let other = scope.spawn(read);
        let mut found = read();
        found.extend(other.join().unwrap());
        found
    });
    all.sort();
    assert_eq!(all.concat(), sent);
}
