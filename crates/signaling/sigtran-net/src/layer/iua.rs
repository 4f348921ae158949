//! IUA on sockets (RFC 4233).

use bytes::Bytes;
use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspEvent};
use carrick_sigtran::aspm::sgp::{Gateway, GatewayEvent};
use carrick_sigtran::iua::asp::{AspIndication, DataLinkKey};
use carrick_sigtran::iua::link::{AspDataLink, SgDataLink};
use carrick_sigtran::iua::sg::SgIndication;
use carrick_sigtran::iua::{
    DecodeError, InterfaceIdentifier, Iua, Message, PAYLOAD_PROTOCOL_ID, PORT,
};

use super::{SocketLayer, deliver_all, socket_layer};
use crate::connection::LinkKey;
use crate::event::Event;
use crate::node::Node;
use crate::request::RequestError;
use crate::session::TransferSender;

impl SocketLayer for Iua {
    socket_layer!(AspIndication, SgIndication);
    deliver_all!(AspIndication, SgIndication);

    /// IUA has no registrations.
    fn deregister(_asp: &mut Asp<Self>, _now: Time, _ids: Vec<InterfaceIdentifier>) {}
}

impl TransferSender<Iua> {
    /// Makes requests of Q.931 on a data link, such as [`AspDataLink::establish`] and [`AspDataLink::send`], at the first
    /// gateway at which the ASP is active for its interface. Waits as [`Self::request`] does.
    ///
    /// # Errors
    /// [`RequestError`] if the ASP is not active for the interface.
    pub async fn data_link<R: Send + 'static>(
        &self,
        key: DataLinkKey,
        request: impl FnOnce(&mut AspDataLink, Time) -> R + Send + 'static,
    ) -> Result<R, RequestError<InterfaceIdentifier>> {
        let id = Some(key.0.clone());
        let request = move |asp: &mut Asp<Iua>, now| asp.data_link(&key, |link| request(link, now));
        Ok(self.request(id, request).await??)
    }

    /// Handles indications and answers of Q.921 on a data link of the gateway, such as
    /// [`SgDataLink::establish_confirm`] and [`SgDataLink::data`]. Waits as [`Self::request`] does.
    ///
    /// # Errors
    /// [`RequestError`] if there is no such data link, or no ASP gets a message.
    pub async fn gateway_data_link<R: Send + 'static>(
        &self,
        key: DataLinkKey,
        request: impl FnOnce(&mut SgDataLink, Time) -> R + Send + 'static,
    ) -> Result<R, RequestError<InterfaceIdentifier>> {
        let request =
            move |sg: &mut Gateway<Iua>, now| sg.data_link(&key, |link| request(link, now));
        Ok(self.request_gateway(request).await??)
    }
}
