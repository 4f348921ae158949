//! Links and data links of the layers whose application servers are interfaces, M2UA and IUA (RFC 3331 and RFC 4233,
//! sections 1.3 and 4.1).
//!
//! Each interface is one application server: messages list interfaces, and an ASP is active for a set of them
//! (RFC 3331, section 4.3.1).

use std::collections::BTreeMap;
use std::fmt::Debug;

use carrick_proto::Time;

use super::asp::{Asp, AspRequestError};
use super::deadlines::Deadlines;
use super::sgp::{AspKey, DeliveryError, Gateway};
use super::{AspState, Layer};
use crate::message::interface::InterfaceIdentifier;
use crate::message::{ErrorCode, TrafficMode};

/// Interface that an ASP serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AspInterface<C> {
    /// Identifier of the interface.
    pub identifier: InterfaceIdentifier,
    /// Traffic mode of ASP Active messages; the gateway's configuration applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Configuration of its links.
    pub link: C,
}

impl<C: Default> AspInterface<C> {
    /// Interface with this identifier.
    pub fn new(identifier: InterfaceIdentifier) -> Self {
        Self {
            identifier,
            traffic_mode: None,
            link: C::default(),
        }
    }
}

/// Interface of a gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceConfig<C> {
    /// Identifier, unique at the gateway.
    pub identifier: InterfaceIdentifier,
    /// Traffic mode; that of the first ASP Active applies if absent.
    pub traffic_mode: Option<TrafficMode>,
    /// Number n of active ASPs at which the interface becomes active, at least 1. In override mode 1 applies.
    pub minimum_asps: usize,
    /// Configuration of its links.
    pub link: C,
}

impl<C: Default> InterfaceConfig<C> {
    /// Interface with n = 1, in the traffic mode of its first ASP Active.
    pub fn new(identifier: InterfaceIdentifier) -> Self {
        Self {
            identifier,
            traffic_mode: None,
            minimum_asps: 1,
            link: C::default(),
        }
    }
}

/// State machine of a link or data link, at one end of an association.
pub trait Link<M>: Debug {
    /// Indication to the user, or request to the lower layer.
    type Output;

    /// Handles a message of the other end.
    fn handle_message(&mut self, message: &M);

    /// Handles the end of the ASP's activity.
    fn handle_inactive(&mut self) {}

    /// Handles the timers that have expired.
    fn handle_timeout(&mut self, _now: Time) {}

    /// Returns the time of the next timeout.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Returns the next message for the other end.
    fn poll_transmit(&mut self) -> Option<M>;

    /// Returns the next indication or request.
    fn poll_output(&mut self) -> Option<Self::Output>;
}

/// Links by their keys, with their timers.
#[derive(Debug)]
pub struct Links<K, N> {
    links: BTreeMap<K, N>,
    deadlines: Deadlines<K>,
}

impl<K: Clone + Ord, N> Default for Links<K, N> {
    fn default() -> Self {
        Self {
            links: BTreeMap::new(),
            deadlines: Deadlines::new(),
        }
    }
}

/// Result of a change of a link, messages for the other end, and outputs.
type Actions<R, M, O> = (R, Vec<M>, Vec<O>);

impl<K: Clone + Ord, N> Links<K, N> {
    /// Adds a link, or replaces it.
    pub(crate) fn insert<M>(&mut self, key: K, link: N)
    where
        N: Link<M>,
    {
        self.remove(&key);
        self.deadlines
            .reschedule(key.clone(), None, link.poll_timeout());
        self.links.insert(key, link);
    }

    pub(crate) fn remove<M>(&mut self, key: &K)
    where
        N: Link<M>,
    {
        if let Some(link) = self.links.remove(key) {
            self.deadlines
                .reschedule(key.clone(), link.poll_timeout(), None);
        }
    }

    /// Returns the number of links.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns a link.
    pub fn get(&self, key: &K) -> Option<&N> {
        self.links.get(key)
    }

    /// Returns the keys of a range of links.
    pub(crate) fn keys(&self, range: impl std::ops::RangeBounds<K>) -> Vec<K> {
        let keys = self.links.range(range);
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// Returns whether there is a link in a range.
    pub(crate) fn has(&self, range: impl std::ops::RangeBounds<K>) -> bool {
        self.links.range(range).next().is_some()
    }

    /// Returns the next timeout.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Changes a link; returns its actions.
    fn change<M, R>(
        &mut self,
        key: &K,
        change: impl FnOnce(&mut N) -> R,
    ) -> Option<Actions<R, M, N::Output>>
    where
        N: Link<M>,
    {
        let link = self.links.get_mut(key)?;
        let previous = link.poll_timeout();
        let result = change(link);
        let messages = std::iter::from_fn(|| link.poll_transmit()).collect();
        let outputs = std::iter::from_fn(|| link.poll_output()).collect();
        let next = link.poll_timeout();
        self.deadlines.reschedule(key.clone(), previous, next);
        Some((result, messages, outputs))
    }
}

/// Layer whose application servers are interfaces with links.
pub trait LinkLayer: Layer<AsId = InterfaceIdentifier, Payload = <Self as Layer>::Message> {
    /// Key of a link.
    type Key: Clone + Ord + Debug;
    /// Link at an ASP.
    type AspLink: Link<Self::Message>;
    /// Link at a gateway.
    type SgpLink: Link<Self::Message>;

    /// Returns the interface of a link.
    fn interface(key: &Self::Key) -> InterfaceIdentifier;

    /// Returns the links of an ASP.
    fn asp_links(user: &mut Self::AspUser) -> &mut Links<Self::Key, Self::AspLink>;

    /// Returns the links of a gateway.
    fn sgp_links(user: &mut Self::User) -> &mut Links<Self::Key, Self::SgpLink>;

    /// Returns the indication of a link at an ASP.
    fn asp_indication(
        key: &Self::Key,
        output: <Self::AspLink as Link<Self::Message>>::Output,
    ) -> Self::AspIndication;

    /// Returns the request of a link at a gateway.
    fn sgp_indication(
        key: &Self::Key,
        output: <Self::SgpLink as Link<Self::Message>>::Output,
    ) -> Self::SgpIndication;

    /// Returns whether a message is for management, on stream 0.
    fn is_management(_message: &Self::Message) -> bool {
        false
    }

    /// Returns the ASP that a message answers, if it is not for all that share the link.
    fn requester(_user: &Self::User, _key: &Self::Key, _message: &Self::Message) -> Option<AspKey> {
        None
    }
}

/// Stream on which management messages are accepted like traffic.
const ANY_STREAM: u16 = 1;

impl<L: LinkLayer> Asp<L> {
    /// Makes a request of the user on a link of an interface for which the ASP is active; its messages are sent.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active for the interface, or there is no such link.
    pub(crate) fn change_link<R>(
        &mut self,
        key: &L::Key,
        change: impl FnOnce(&mut L::AspLink) -> R,
    ) -> Result<R, AspRequestError<InterfaceIdentifier>> {
        let id = L::interface(key);
        self.active(Some(id.clone()))?;
        let actions = L::asp_links(&mut self.user).change(key, change);
        let unknown = AspRequestError::UnknownApplicationServer(Some(id));
        let (result, messages, outputs) = actions.ok_or(unknown)?;
        for output in outputs {
            self.indicate(L::asp_indication(key, output));
        }
        for message in messages {
            if L::is_management(&message) {
                self.send(message);
            } else {
                self.send_traffic(L::flow(&message), message)?;
            }
        }
        Ok(result)
    }

    /// Handles a message of the gateway for a link. `None` as key is a link that does not exist.
    pub(crate) fn receive_for_link(
        &mut self,
        stream: u16,
        id: &InterfaceIdentifier,
        key: Option<L::Key>,
        message: &L::Message,
    ) {
        let stream = if L::is_management(message) {
            ANY_STREAM
        } else {
            stream
        };
        if self.admit(stream, Some(id.clone()), message).is_none() {
            return;
        }
        let handled = key.map(|key| self.change_link(&key, |link| link.handle_message(message)));
        if !matches!(handled, Some(Ok(()))) {
            self.refuse(ErrorCode::UNEXPECTED_MESSAGE, message);
        }
    }

    /// Ends the requests on the links of an interface for which the ASP is active no longer.
    pub(crate) fn leave_links(&mut self, keys: &[L::Key]) {
        for key in keys {
            let actions = L::asp_links(&mut self.user).change(key, L::AspLink::handle_inactive);
            for output in actions.into_iter().flat_map(|(.., outputs)| outputs) {
                self.indicate(L::asp_indication(key, output));
            }
        }
    }

    /// Handles the timers of the links.
    pub(crate) fn expire_links(&mut self, now: Time) {
        for key in L::asp_links(&mut self.user).deadlines.due(now) {
            // Links of interfaces for which the ASP is not active have no timers.
            let _ = self.change_link(&key, |link| link.handle_timeout(now));
        }
    }
}

impl<L: LinkLayer> Gateway<L> {
    /// Handles an event of the lower layer on a link; its messages are delivered to the ASPs that are active for the
    /// interface, and wait while that is pending.
    ///
    /// # Errors
    /// [`DeliveryError`] if a message could not be delivered; the link has changed nevertheless, so that an ASP that becomes
    /// active finds its state.
    pub(crate) fn change_link<R>(
        &mut self,
        key: &L::Key,
        change: impl FnOnce(&mut L::SgpLink) -> R,
    ) -> Result<R, DeliveryError<InterfaceIdentifier>> {
        let id = L::interface(key);
        let actions = L::sgp_links(&mut self.user).change(key, change);
        let (result, messages, outputs) = actions.ok_or(DeliveryError::Unknown(id.clone()))?;
        for output in outputs {
            self.indicate(L::sgp_indication(key, output));
        }
        let mut delivered = Ok(());
        for message in messages {
            delivered = delivered.and(match L::requester(&self.user, key, &message) {
                Some(asp) if self.asp_state(asp, id.clone()) == Some(AspState::Active) => {
                    self.reply(asp, message);
                    Ok(())
                }
                _ => self.deliver(&id, message),
            });
        }
        delivered.map(|()| result)
    }

    /// Handles a message of an ASP for a link; what it answers at once is sent to that ASP. Before the ASP is active it is
    /// discarded (section 4.3.4.3). Returns whether the link got the message.
    pub(crate) fn serve_link(&mut self, asp: AspKey, key: &L::Key, message: &L::Message) -> bool {
        let links = L::sgp_links(&mut self.user);
        let Some(((), messages, outputs)) = links.change(key, |link| link.handle_message(message))
        else {
            return false;
        };
        for output in outputs {
            self.indicate(L::sgp_indication(key, output));
        }
        for message in messages {
            self.reply(asp, message);
        }
        true
    }

    /// Returns whether a message of an ASP is for an interface for which it is active; answers it if it is not its own.
    pub(crate) fn admits(
        &mut self,
        asp: AspKey,
        stream: u16,
        id: &InterfaceIdentifier,
        message: &L::Message,
    ) -> bool {
        let stream = if L::is_management(message) {
            ANY_STREAM
        } else {
            stream
        };
        let found = self.addressed(asp, stream, Some(id.clone()), message);
        found.is_some_and(|id| self.asp_state(asp, id) == Some(AspState::Active))
    }

    /// Handles the timers of the links.
    pub(crate) fn expire_links(&mut self, now: Time) {
        for key in L::sgp_links(&mut self.user).deadlines.due(now) {
            // An indication for which no ASP is active is recorded in the link.
            let _ = self.change_link(&key, |link| link.handle_timeout(now));
        }
    }
}

/// Implements the methods of [`Layer`] that are the same for M2UA and IUA.
macro_rules! interface_layer {
    () => {
        type AsId = InterfaceIdentifier;
        type Label = ();
        type Message = Message;
        type Notify = Notify;
        type ErrorMessage = ErrorMessage;
        type Payload = Message;

        const INVALID_AS: ErrorCode = ErrorCode::INVALID_INTERFACE_IDENTIFIER;
        const UNDEFINED_AS: ErrorCode = ErrorCode::INVALID_INTERFACE_IDENTIFIER;
        const NO_AS: ErrorCode = ErrorCode::INVALID_INTERFACE_IDENTIFIER;

        fn answering(error: &DecodeError, octets: &[u8]) -> Option<ErrorMessage> {
            ErrorMessage::answering(error, octets)
        }

        fn list_limit(id: &InterfaceIdentifier) -> usize {
            id.list_limit()
        }

        fn notify(
            status: Status,
            asp_identifier: Option<AspIdentifier>,
            ids: Option<AsIds<InterfaceIdentifier>>,
        ) -> Notify {
            Notify::of(status, asp_identifier, ids)
        }

        fn read_notify(notify: &Notify) -> (Status, Option<AsIds<InterfaceIdentifier>>) {
            let identifiers = notify.identifiers.as_ref();
            (notify.status, identifiers.and_then(AsIds::from_interfaces))
        }

        fn served_id(served: &Self::Served) -> Option<InterfaceIdentifier> {
            Some(served.identifier.clone())
        }

        fn activation(served: &Self::Served) -> Activation<()> {
            Activation {
                traffic_mode: served.traffic_mode,
                label: (),
            }
        }

        fn set_served_id(served: &mut Self::Served, id: InterfaceIdentifier) {
            served.identifier = id;
        }

        fn server_id(server: &Self::Server) -> InterfaceIdentifier {
            server.identifier.clone()
        }

        fn server_mode(server: &Self::Server) -> Option<crate::message::TrafficMode> {
            server.traffic_mode
        }

        fn minimum_asps(server: &Self::Server) -> usize {
            server.minimum_asps
        }

        fn asp_timeout(user: &Self::AspUser) -> Option<Time> {
            user.next_timeout()
        }

        fn expire_asp(asp: &mut Asp, now: Time) {
            asp.expire_links(now);
        }
    };
}
pub(crate) use interface_layer;

/// Implements [`Link`] by the methods of a machine: its output, and whether requests end with the activity and are
/// repeated.
macro_rules! impl_link {
    ($link:ty: $output:ty = $poll:ident $(, ends $inactive:ident)? $(, timers $timeout:ident)?) => {
        impl Link<Message> for $link {
            type Output = $output;

            fn handle_message(&mut self, message: &Message) {
                self.handle_message(message);
            }

            $(fn handle_inactive(&mut self) {
                self.$inactive();
            })?

            $(fn handle_timeout(&mut self, now: Time) {
                self.$timeout(now);
            }

            fn poll_timeout(&self) -> Option<Time> {
                self.poll_timeout()
            })?

            fn poll_transmit(&mut self) -> Option<Message> {
                self.poll_transmit()
            }

            fn poll_output(&mut self) -> Option<$output> {
                self.$poll()
            }
        }
    };
}
pub(crate) use impl_link;
