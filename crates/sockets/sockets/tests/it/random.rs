//! Random calls with random arguments: no panic, no endless work, and nothing is left after all sockets are
//! closed.

use carrick_sockets::ancillary::ControlMessage;
use carrick_sockets::linux::*;
use carrick_sockets::{Family, SocketId, Style};

use crate::world::*;

/// Numbers of a linear congruential generator.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }

    fn bytes(&mut self, limit: usize) -> Vec<u8> {
        let len = self.below(limit);
        // Small values are valid more often.
        (0..len)
            .map(|_| {
                if self.below(2) == 0 {
                    0
                } else {
                    self.below(8) as u8
                }
            })
            .collect()
    }
}

/// One random call on a random socket.
fn call(w: &mut World, numbers: &mut Numbers, sockets: &mut Vec<(usize, SocketId)>) {
    let host = numbers.below(2);
    if sockets.len() < 4 || numbers.below(20) == 0 {
        let style = [Style::OneToOne, Style::OneToMany][numbers.below(2)];
        let family = [Family::Inet, Family::Inet6][numbers.below(2)];
        if let Ok(socket) = w.look(host).socket(style, family) {
            sockets.push((host, socket));
        }
        return;
    }
    let index = numbers.below(sockets.len());
    let (host, socket) = sockets[index];
    let port = PORT + numbers.below(3) as u16;
    let link = numbers.below(2) as u8;
    let own = std::net::SocketAddr::new(ip(host, link), port);
    let peer = std::net::SocketAddr::new(ip(1 - host, link), port);
    let id = numbers.below(8) as i32;
    match numbers.below(16) {
        0 => drop(w.on(host, |s, _| s.bind(socket, own))),
        1 => drop(w.on(host, |s, _| s.listen(socket, id))),
        2 => drop(w.on(host, |s, now| s.connect(now, socket, peer))),
        3 => {
            if let Ok((accepted, _)) = w.on(host, |s, _| s.accept(socket)) {
                sockets.push((host, accepted));
            }
        }
        4 => {
            if let Ok(branched) = w.on(host, |s, now| s.peeloff(now, socket, id)) {
                sockets.push((host, branched));
            }
        }
        5 | 6 => {
            let size = [1, 100, 5000, 100_000][numbers.below(4)];
            let flags = [0, SCTP_ABORT, SCTP_EOF, SCTP_SENDALL, SCTP_UNORDERED][numbers.below(5)];
            let address = [None, Some(peer)][numbers.below(2)];
            let size = if flags == SCTP_EOF { 0 } else { size };
            let control = [sndinfo(flags, id)];
            let _ = w.send_msg(host, socket, address, &vec![0; size], &control);
        }
        7 => {
            let kind = numbers.below(10) as i32;
            let control = [ControlMessage::sctp(kind, numbers.bytes(40))];
            let _ = w.send_msg(host, socket, Some(peer), b"x", &control);
        }
        8 | 9 => {
            let flags = [0, MSG_PEEK][numbers.below(2)];
            let size = [0, 10, 100_000][numbers.below(3)];
            let _ = w.recv_with(host, socket, size, flags);
        }
        10 => drop(w.on(host, |s, now| s.shutdown(now, socket, id - 1))),
        11 => {
            let level = [IPPROTO_SCTP, SOL_SOCKET][numbers.below(2)];
            let option = (level, numbers.below(140) as i32);
            let _ = w.set_bytes(host, socket, option, &numbers.bytes(200));
            let _ = w.get_bytes(host, socket, option, &numbers.bytes(200));
        }
        12 => {
            let (_, name) = SCTP_CONSTANTS[numbers.below(SCTP_CONSTANTS.len())];
            let size = [4, 8, 16, 132, 144, 156, 176][numbers.below(7)];
            let mut value = vec![0; size];
            value[..4].copy_from_slice(&id.to_ne_bytes());
            if let Some(byte) = value.get_mut(4) {
                *byte = numbers.below(4) as u8;
            }
            let _ = w.set_bytes(host, socket, (IPPROTO_SCTP, name), &value);
            let _ = w.get_bytes(host, socket, (IPPROTO_SCTP, name), &value);
        }
        13 => {
            let second = std::net::SocketAddr::new(ip(host, 1 - link), 0);
            let _ = w.on(host, |s, _| s.bindx_add(socket, &[second]));
            let _ = w.on(host, |s, now| s.bindx_remove(now, socket, &[own]));
        }
        14 => {
            sockets.swap_remove(index);
            let crash = numbers.below(2) == 0;
            let _ = w.on(host, |s, now| {
                if crash {
                    s.abort(now, socket)
                } else {
                    s.close(now, socket).map(|_| ())
                }
            });
        }
        _ if numbers.below(4) == 0 => w.hand_over(host),
        _ => w.run(ms(1 + numbers.below(300) as u64)),
    }
}

#[test]
fn random_calls_leak_no_state() {
    for seed in 0..60 {
        let mut w = World::with(|config| config.max_sockets = 40);
        let mut numbers = Numbers(seed);
        let mut sockets = Vec::new();
        for _ in 0..400 {
            call(&mut w, &mut numbers, &mut sockets);
        }
        for host in [A, B] {
            for (socket, _) in w.changes(host) {
                assert!(w.look(host).readiness(socket).is_some(), "seed {seed}");
            }
        }
        for (host, socket) in sockets {
            w.on(host, |s, now| s.close(now, socket))
                .expect("an open socket");
        }
        w.run(secs(2000));
        for host in [A, B] {
            let s = w.look(host);
            let left = (s.usage().sockets, s.usage().associations, s.usage().ports);
            assert_eq!(left, (0, 0, 0), "seed {seed}, host {host}");
            assert_eq!(w.changes(host), [], "seed {seed}");
        }
    }
}
