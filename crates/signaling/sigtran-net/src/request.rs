//! Requests at the state machines of a session.

use std::fmt::{Debug, Display};

use carrick_proto::Time;
use carrick_sigtran::aspm::asp::{Asp, AspRequestError};
use carrick_sigtran::aspm::sgp::{DeliveryError, Gateway};

use crate::layer::SocketLayer;
use crate::session::TransferSender;

/// The session has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the session has ended")]
pub struct Ended;

/// Reason for which a request was not made. `I` identifies an application server in the layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError<I: Debug + Display> {
    /// The ASP is not active in the application server at any gateway that reaches the destination.
    #[error("the ASP is not active at a gateway that reaches the destination")]
    NotActive,
    /// No gateway has the name.
    #[error("no gateway has this name: use that of its configuration")]
    UnknownGateway,
    /// The state machine of the ASP refused the request.
    #[error(transparent)]
    Asp(#[from] AspRequestError<I>),
    /// The state machine of the gateway could not deliver a message.
    #[error(transparent)]
    Delivery(#[from] DeliveryError<I>),
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl<I: Debug + Display> From<Ended> for RequestError<I> {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl<L: SocketLayer> TransferSender<L> {
    /// Makes requests at the state machine of the ASP, such as an audit, at the first gateway at which the ASP is active in
    /// an application server. The closure is run by the session's task; it must not block. Waits while the send queue of
    /// an association is more than half full. What a request sends beyond 8,192 messages is discarded.
    ///
    /// # Errors
    /// [`RequestError::NotActive`] and [`RequestError::Ended`]; the closure is not run then.
    pub async fn request<R: Send + 'static>(
        &self,
        id: Option<L::AsId>,
        request: impl FnOnce(&mut Asp<L>, Time) -> R + Send + 'static,
    ) -> Result<R, RequestError<L::AsId>> {
        let requested = self.run(move |node| {
            let now = node.now();
            let mut links = node.links.values_mut();
            let link = links.find(|link| link.is_active(id.clone()));
            let link = link.ok_or(RequestError::NotActive)?;
            Ok(request(&mut link.asp, now))
        });
        requested.await?
    }

    /// Makes requests at the state machine of the ASP towards the gateway with this name, such as a registration when the
    /// ASP is up. An application server that a registration adds is activated. Waits as [`Self::request`] does.
    ///
    /// # Errors
    /// [`RequestError::UnknownGateway`] and [`RequestError::Ended`]; the closure is not run then.
    pub async fn request_at<R: Send + 'static>(
        &self,
        gateway: &str,
        request: impl FnOnce(&mut Asp<L>, Time) -> R + Send + 'static,
    ) -> Result<R, RequestError<L::AsId>> {
        let name = gateway.to_owned();
        let requested = self.run(move |node| {
            let now = node.now();
            let mut links = node.links.values_mut();
            let link = links.find(|link| *link.connection.name == *name);
            let link = link.ok_or(RequestError::UnknownGateway)?;
            Ok(request(&mut link.asp, now))
        });
        requested.await?
    }

    /// Makes requests at the state machine of the gateway, such as a report of destinations. Waits as [`Self::request`] does.
    ///
    /// # Errors
    /// [`Ended`]; the closure is not run then.
    pub async fn request_gateway<R: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Gateway<L>, Time) -> R + Send + 'static,
    ) -> Result<R, Ended> {
        self.run(move |node| {
            let now = node.now();
            request(&mut node.gateway.sgp, now)
        })
        .await
    }
}
