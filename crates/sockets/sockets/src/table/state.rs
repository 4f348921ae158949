//! Life cycle of a socket: its states, each with its own data, and the transitions between them.
//!
//! | state | method | next state |
//! |---|---|---|
//! | `Open`, `Listening` | [`Socket::listen`] | `Listening` |
//! | `Listening` | [`Socket::stop_listening`] | `Open` |
//! | `Open` of a one-to-one socket | [`Socket::start_setup`] | `Connecting` |
//! | `Connecting` | [`Socket::establish`] | `Established` |
//! | `Connecting` | [`Socket::cancel_setup`] | `Open` |
//! | `Connecting` | [`Socket::fail_setup`] | `Open` with `setup_failed` |
//! | `Established` of a branched-off socket | [`Socket::fail_setup`] | `SetupFailed` |
//! | `Established` | [`Socket::end`] | `Ended` |
//!
//! In `Established`, [`Socket::receive_shutdown`], [`Socket::shut_down_receiving`] and [`Socket::shut_down_sending`]
//! close the directions. In other states a method has no effect.
//!
//! One-to-many sockets are `Open` or `Listening`, whatever their associations. Sockets of accept queues and branched-off
//! ones begin in `Established`: the former have an association that is established, the latter one that may still be set up.

use std::net::SocketAddr;

use carrick_proto::{portable_enum, portable_struct};

use super::Socket;
use crate::errno::Errno;

/// State of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SocketState {
    /// Without an association, or of a one-to-many socket.
    Open {
        /// The last set-up of a one-to-one socket failed.
        setup_failed: bool,
    },
    /// Associations of peers are accepted.
    Listening {
        backlog: usize,
        /// Kept for the time after the socket listens.
        setup_failed: bool,
    },
    /// The association of a one-to-one socket is being set up.
    Connecting,
    /// The socket has one association.
    Established(Connection),
    /// The association of a branched-off socket was not established; with the receiving direction, as the user left it.
    SetupFailed(Receiving),
    /// The association has ended.
    Ended { peer: SocketAddr },
}

portable_enum! {
    SocketState {
        0: Open { setup_failed },
        1: Listening { backlog, setup_failed },
        2: Connecting,
        3: Established(connection),
        4: SetupFailed(receiving),
        5: Ended { peer },
    }
}

/// Peer and directions of the only association of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Connection {
    /// Primary address of the peer when the association was established.
    peer: SocketAddr,
    receiving: Receiving,
    sending: Sending,
}

portable_struct! { Connection { peer, receiving, sending } }

/// Receiving direction of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Receiving {
    Open,
    /// The peer has shut down the association (RFC 9260, section 9.2): no message follows those that have been received.
    ClosedByPeer,
    /// The user reads no more messages (`SHUT_RD`): those that arrive are dropped.
    ShutDown,
}

portable_enum! { Receiving { 0: Open, 1: ClosedByPeer, 2: ShutDown } }

/// Sending direction of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sending {
    Open,
    /// The user sends no more messages (`SHUT_WR`).
    ShutDown,
}

portable_enum! { Sending { 0: Open, 1: ShutDown } }

impl SocketState {
    /// State of a new socket.
    pub(super) const NEW: Self = Self::Open {
        setup_failed: false,
    };

    /// Returns the state of a socket that is created with its association.
    pub(super) fn established(peer: SocketAddr) -> Self {
        Self::Established(Connection {
            peer,
            receiving: Receiving::Open,
            sending: Sending::Open,
        })
    }

    fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Established(connection) => Some(connection),
            _ => None,
        }
    }
}

/// Transitions.
impl Socket {
    /// Accepts associations of peers, or changes the backlog.
    pub(crate) fn listen(&mut self, backlog: usize) {
        if let SocketState::Open { setup_failed } | SocketState::Listening { setup_failed, .. } =
            self.state
        {
            self.state = SocketState::Listening {
                backlog,
                setup_failed,
            };
        }
    }

    /// Stops accepting associations of peers. The accept queue remains.
    pub(crate) fn stop_listening(&mut self) {
        if let SocketState::Listening { setup_failed, .. } = self.state {
            self.state = SocketState::Open { setup_failed };
        }
    }

    /// Records that the set-up of an association has started.
    pub(crate) fn start_setup(&mut self) {
        if self.is_one_to_one() {
            self.state = SocketState::Connecting;
            self.set_error(None);
        }
    }

    /// Drops the set-up of an association of which the user has not been notified.
    pub(crate) fn cancel_setup(&mut self) {
        if self.is_connecting() {
            self.state = SocketState::NEW;
        }
    }

    /// Records that the set-up of the only association has failed.
    pub(crate) fn fail_setup(&mut self) {
        self.state = match self.state {
            SocketState::Connecting => SocketState::Open { setup_failed: true },
            SocketState::Established(connection) if self.is_peeled_off() => {
                SocketState::SetupFailed(connection.receiving)
            }
            state => state,
        };
    }

    /// Records that the association of a one-to-one socket is established. Sockets of accept queues get the primary
    /// address of the peer.
    pub(crate) fn establish(&mut self, peer: SocketAddr) {
        if !self.is_one_to_one() {
            return;
        }
        match &mut self.state {
            SocketState::Connecting => self.state = SocketState::established(peer),
            SocketState::Established(connection) => connection.peer = peer,
            _ => {}
        }
    }

    /// Records that the peer has shut down the association.
    pub(crate) fn receive_shutdown(&mut self) {
        if let Some(connection) = self.state.connection_mut()
            && connection.receiving == Receiving::Open
        {
            connection.receiving = Receiving::ClosedByPeer;
        }
    }

    /// Closes the receiving direction for the user.
    pub(crate) fn shut_down_receiving(&mut self) {
        if let Some(connection) = self.state.connection_mut() {
            connection.receiving = Receiving::ShutDown;
        }
    }

    /// Closes the sending direction.
    pub(crate) fn shut_down_sending(&mut self) {
        if let Some(connection) = self.state.connection_mut() {
            connection.sending = Sending::ShutDown;
        }
    }

    /// Records that the only association has ended after it was established.
    pub(crate) fn end(&mut self) {
        if let SocketState::Established(Connection { peer, .. }) = self.state {
            self.state = SocketState::Ended { peer };
        }
    }
}

/// Conditions of the state.
impl Socket {
    /// Returns whether the state is one of those of the socket's style.
    pub(super) fn has_valid_state(&self) -> bool {
        match self.state {
            SocketState::Open { setup_failed } | SocketState::Listening { setup_failed, .. } => {
                !self.is_peeled_off() && (self.is_one_to_one() || !setup_failed)
            }
            SocketState::Connecting => self.is_one_to_one(),
            SocketState::Established(_) | SocketState::Ended { .. } => self.is_single(),
            SocketState::SetupFailed(_) => self.is_peeled_off(),
        }
    }

    /// Returns the backlog of a socket that listens.
    pub(crate) fn backlog(&self) -> Option<usize> {
        match self.state {
            SocketState::Listening { backlog, .. } => Some(backlog),
            _ => None,
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.backlog().is_some()
    }

    pub(crate) fn is_one_to_one_listener(&self) -> bool {
        self.is_one_to_one() && self.is_listening()
    }

    pub(crate) fn is_connecting(&self) -> bool {
        self.state == SocketState::Connecting
    }

    /// Returns whether the socket has one association, which may be shutting down.
    pub(crate) fn is_established(&self) -> bool {
        matches!(self.state, SocketState::Established(_))
    }

    /// Returns whether the association has ended after it was established.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, SocketState::Ended { .. })
    }

    /// Returns whether a one-to-one socket has and had no association.
    pub(crate) fn is_unconnected(&self) -> bool {
        self.is_one_to_one() && matches!(self.state, SocketState::Open { .. })
    }

    /// Returns whether the set-up of the only association failed, and no other one has been started.
    pub(super) fn has_failed(&self) -> bool {
        matches!(
            self.state,
            SocketState::Open { setup_failed: true } | SocketState::SetupFailed(_)
        )
    }

    /// Returns the peer of the only association, also after its end; `None` unless it was established.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self.state {
            SocketState::Established(Connection { peer, .. }) | SocketState::Ended { peer } => {
                Some(peer)
            }
            _ => None,
        }
    }

    /// Returns whether no more messages arrive, or the user reads no more.
    pub(crate) fn is_read_closed(&self) -> bool {
        match self.state {
            SocketState::Established(Connection { receiving, .. })
            | SocketState::SetupFailed(receiving) => receiving != Receiving::Open,
            SocketState::Ended { .. } => true,
            _ => false,
        }
    }

    /// Returns whether messages that arrive are dropped.
    pub(crate) fn drops_messages(&self) -> bool {
        matches!(
            self.state,
            SocketState::Established(Connection {
                receiving: Receiving::ShutDown,
                ..
            })
        )
    }

    /// Returns whether the user has shut down the sending direction, or the association has ended.
    pub(crate) fn is_write_closed(&self) -> bool {
        match self.state {
            SocketState::Established(connection) => connection.sending == Sending::ShutDown,
            SocketState::Ended { .. } => true,
            _ => false,
        }
    }

    /// Checks that the socket may accept associations of peers, or accepts them.
    ///
    /// # Errors
    /// `EINVAL`
    pub(crate) fn check_listen(&self) -> Result<(), Errno> {
        match self.state {
            SocketState::Open { .. } | SocketState::Listening { .. } => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Checks that the set-up of an association may start.
    ///
    /// # Errors
    /// `EALREADY` or `EISCONN`
    pub(crate) fn check_setup(&self) -> Result<(), Errno> {
        match self.state {
            SocketState::Listening { .. } if self.is_one_to_one() => Err(Errno::EISCONN),
            SocketState::Open { .. } | SocketState::Listening { .. } => Ok(()),
            SocketState::Connecting => Err(Errno::EALREADY),
            SocketState::Established(_)
            | SocketState::SetupFailed(_)
            | SocketState::Ended { .. } => Err(Errno::EISCONN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::settings::Options;
    use crate::table::{Family, Readiness, Style};

    const OPEN: SocketState = SocketState::NEW;
    const FAILED: SocketState = SocketState::Open { setup_failed: true };

    fn peer() -> SocketAddr {
        ([192, 0, 2, 1], 5000).into()
    }

    fn socket(style: Style) -> Socket {
        let options = Options::new(&Config::new(Vec::new(), [0; 32]));
        Socket::new(style, Family::Inet, options)
    }

    fn listening(setup_failed: bool) -> SocketState {
        SocketState::Listening {
            backlog: 5,
            setup_failed,
        }
    }

    fn connection(receiving: Receiving, sending: Sending) -> SocketState {
        SocketState::Established(Connection {
            peer: peer(),
            receiving,
            sending,
        })
    }

    /// Returns the states after each transition that changes a state of a socket, in the order of the table.
    fn following(mut socket: Socket, state: SocketState) -> Vec<SocketState> {
        let transitions: [fn(&mut Socket); 9] = [
            |socket| socket.listen(5),
            Socket::stop_listening,
            |socket| socket.establish(peer()),
            Socket::cancel_setup,
            Socket::fail_setup,
            Socket::receive_shutdown,
            Socket::shut_down_receiving,
            Socket::shut_down_sending,
            Socket::end,
        ];
        let mut states = Vec::new();
        for transition in transitions {
            socket.state = state;
            transition(&mut socket);
            assert!(
                socket.has_valid_state(),
                "{:?} after {state:?}",
                socket.state
            );
            states.extend(Some(socket.state).filter(|next| *next != state));
        }
        states
    }

    #[test]
    fn states_follow_the_table() {
        let of = |state| following(socket(Style::OneToOne), state);
        let (open, sending) = (Receiving::Open, Sending::Open);
        let ended = SocketState::Ended { peer: peer() };
        assert_eq!(of(OPEN), [listening(false)]);
        assert_eq!(of(FAILED), [listening(true)]);
        assert_eq!(of(listening(false)), [OPEN]);
        assert_eq!(of(listening(true)), [FAILED]);
        let established = connection(open, sending);
        assert_eq!(of(SocketState::Connecting), [established, OPEN, FAILED]);
        let write_closed = connection(open, Sending::ShutDown);
        let [by_peer, by_user] =
            [Receiving::ClosedByPeer, Receiving::ShutDown].map(|side| connection(side, sending));
        assert_eq!(of(established), [by_peer, by_user, write_closed, ended]);
        assert_eq!(of(ended), []);
    }

    #[test]
    fn branched_off_sockets_fail_or_end() {
        let branched = || socket(Style::OneToMany).branched_off(peer());
        for receiving in [Receiving::ClosedByPeer, Receiving::ShutDown] {
            let states = following(branched(), connection(receiving, Sending::Open));
            let failed = SocketState::SetupFailed(receiving);
            assert!(states.contains(&failed), "{states:?}");
            assert!(
                states.contains(&SocketState::Ended { peer: peer() }),
                "{states:?}"
            );
            assert_eq!(following(branched(), failed), []);
        }
    }

    #[test]
    fn one_to_many_sockets_never_connect() {
        let mut socket = socket(Style::OneToMany);
        socket.start_setup();
        assert_eq!(socket.state, OPEN);
        socket.listen(5);
        socket.start_setup();
        assert_eq!(socket.state, listening(false));
        assert_eq!(socket.check_setup(), Ok(()));
    }

    #[test]
    fn a_started_set_up_ends_the_hang_up() {
        let mut socket = socket(Style::OneToOne);
        socket.state = FAILED;
        socket.set_error(Some(Errno::ECONNREFUSED));
        let failure = Readiness::HANG_UP | Readiness::ERROR;
        assert!(socket.readiness().contains(failure));
        socket.start_setup();
        assert!(!socket.readiness().intersects(failure));
        assert_eq!(socket.check_setup(), Err(Errno::EALREADY));
    }
}
