//! M2UA on sockets (RFC 3331).

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspEvent};
use carrick_sigtran::aspm::sgp::{Gateway, GatewayEvent};
use carrick_sigtran::m2ua::asp::AspIndication;
use carrick_sigtran::m2ua::link::{AspLink, SgpLink};
use carrick_sigtran::m2ua::sgp::SgpIndication;
use carrick_sigtran::m2ua::{
    DecodeError, InterfaceIdentifier, M2ua, Message, PAYLOAD_PROTOCOL_ID, PORT,
};

use super::{SocketLayer, deliver_all, socket_layer};
use crate::connection::LinkKey;
use crate::event::Event;
use crate::node::Node;
use crate::request::RequestError;
use crate::session::TransferSender;

impl SocketLayer for M2ua {
    socket_layer!(AspIndication, SgpIndication);
    deliver_all!(AspIndication, SgpIndication);

    fn deregister(asp: &mut Asp<Self>, now: Time, ids: Vec<InterfaceIdentifier>) {
        // The ASP serves them.
        let _ = asp.deregister(now, ids);
    }
}

impl TransferSender<M2ua> {
    /// Makes requests of MTP3 on the link of an interface, such as [`AspLink::request`] and [`AspLink::send`], at the
    /// first gateway at which the ASP is active for it. Waits as [`Self::request`] does.
    ///
    /// # Errors
    /// [`RequestError`] if the ASP is not active for the interface.
    pub async fn link<R: Send + 'static>(
        &self,
        identifier: InterfaceIdentifier,
        request: impl FnOnce(&mut AspLink, Time) -> R + Send + 'static,
    ) -> Result<R, RequestError<InterfaceIdentifier>> {
        let id = Some(identifier.clone());
        let request =
            move |asp: &mut Asp<M2ua>, now| asp.link(&identifier, |link| request(link, now));
        Ok(self.request(id, request).await??)
    }

    /// Handles indications and answers of MTP2 on the link of an interface of the gateway, such as
    /// [`SgpLink::in_service`] and [`SgpLink::send`]. Waits as [`Self::request`] does.
    ///
    /// # Errors
    /// [`RequestError`] if no ASP gets a message; the link has the new state nevertheless.
    pub async fn gateway_link<R: Send + 'static>(
        &self,
        identifier: InterfaceIdentifier,
        request: impl FnOnce(&mut SgpLink, Time) -> R + Send + 'static,
    ) -> Result<R, RequestError<InterfaceIdentifier>> {
        let request =
            move |sgp: &mut Gateway<M2ua>, now| sgp.link(&identifier, |link| request(link, now));
        Ok(self.request_gateway(request).await??)
    }
}
