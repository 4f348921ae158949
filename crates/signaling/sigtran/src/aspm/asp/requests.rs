//! Requests of layer management (RFC 4666, section 4.2).

use std::collections::BTreeMap;
use std::fmt::Debug;

use carrick_proto::Time;

use super::{
    Asp, AspEvent, AspState, Outstanding, ServedId, StateRequest, Timer, TrafficRequest, Transmit,
    WantedTraffic,
};
use crate::aspm::{Activation, AsIds, Layer, Maintenance, data_stream};
use crate::message::{AspDown, AspUp, ErrorCode};

/// Request that is not possible in the current state. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AspRequestError<I: Debug> {
    /// There is no association.
    #[error("no association with the SGP: wait for M-SCTP_STATUS with the association up")]
    NoAssociation,
    /// The ASP is in ASP-DOWN.
    #[error("the ASP is in ASP-DOWN: request M-ASP_UP and wait for its confirm")]
    NotUp,
    /// The ASP is not in ASP-ACTIVE in the application server.
    #[error("the ASP is not in ASP-ACTIVE: request M-ASP_ACTIVE and wait for its confirm")]
    NotActive,
    /// The ASP does not serve the application server.
    #[error("the ASP does not serve {0:?}: add it to the configuration or register its key")]
    UnknownApplicationServer(Option<I>),
    /// The association has only stream 0, which is not for traffic.
    #[error(
        "the association has no stream for traffic beside stream 0: negotiate at least two streams"
    )]
    NoDataStream,
    /// No more registrations are possible.
    #[error(
        "{0} application servers are the limit: deregister some or raise max_application_servers"
    )]
    TooManyRegistrations(usize),
    /// Another request waits for its acknowledgement (IPSP with single exchange only).
    #[error("another request waits for its acknowledgement: request again after its confirm")]
    RequestOutstanding,
    /// The local identifier of a registration is in use.
    #[error("local identifier {0} is in use until its registration response")]
    IdentifierInUse(u32),
}

/// Reason for which a request failed, in a confirm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestFailure {
    /// T(ack) expired after the last transmission.
    #[error("the SGP did not acknowledge the request")]
    TimedOut,
    /// The SGP answered with an Error message.
    #[error("the SGP refused the request with error code {:#x}", .0.0)]
    Refused(ErrorCode),
    /// The association was lost or restarted.
    #[error("the association was lost")]
    AssociationLost,
    /// A later request took the place of this one, or the ASP went down.
    #[error("the request was superseded")]
    Superseded,
}

impl<L: Layer> Asp<L> {
    /// M-ASP_UP request. The confirm follows, at once if the ASP is up. After a loss of the association the ASP Up procedure is repeated when
    /// it is established, until [`asp_down`](Self::asp_down) or a failed confirm.
    ///
    /// # Errors
    /// [`AspRequestError::NoAssociation`].
    pub fn asp_up(&mut self, now: Time) -> Result<(), AspRequestError<L::AsId>> {
        self.association()?;
        self.require_confirmed()?;
        self.wanted = true;
        if self.up && self.outstanding.is_none() {
            // An ASP Up would end the traffic at the peer.
            self.confirm_state(StateRequest::Up, Ok(()));
        } else {
            self.request_state(now, StateRequest::Up);
        }
        Ok(())
    }

    /// M-ASP_DOWN request. The confirm follows.
    ///
    /// # Errors
    /// [`AspRequestError::NoAssociation`].
    pub fn asp_down(&mut self, now: Time) -> Result<(), AspRequestError<L::AsId>> {
        self.require_confirmed()?;
        self.forget_wanted();
        self.association()?;
        self.request_state(now, StateRequest::Down);
        Ok(())
    }

    /// Ends the restoration of the states that layer management wanted.
    pub(super) fn forget_wanted(&mut self) {
        self.wanted = false;
        for served in self.servers.values_mut() {
            served.wanted = WantedTraffic::Inactive;
        }
    }

    /// M-ASP_ACTIVE request for these application servers, for all application servers if the list is empty. A confirm
    /// follows for each. The ASP becomes active again after a loss, until [`asp_inactive`](Self::asp_inactive),
    /// [`asp_down`](Self::asp_down), another ASP's override or a failed confirm.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve one of them; nothing is requested then.
    pub fn asp_active(
        &mut self,
        now: Time,
        ids: &[L::AsId],
    ) -> Result<(), AspRequestError<L::AsId>> {
        self.request_listed(now, TrafficRequest::Activate, ids)
    }

    /// M-ASP_INACTIVE request for these application servers, for all application servers if the list is empty. A
    /// confirm follows for each.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve one of them; nothing is requested then.
    pub fn asp_inactive(
        &mut self,
        now: Time,
        ids: &[L::AsId],
    ) -> Result<(), AspRequestError<L::AsId>> {
        self.request_listed(now, TrafficRequest::Deactivate, ids)
    }

    /// Requests traffic in application servers, in all if the list is empty.
    fn request_listed(
        &mut self,
        now: Time,
        request: TrafficRequest,
        ids: &[L::AsId],
    ) -> Result<(), AspRequestError<L::AsId>> {
        self.require_confirmed()?;
        let ids = self.requested(AsIds::new(ids.iter().cloned()).as_ref())?;
        self.request_traffic(now, request, ids);
        Ok(())
    }

    pub(crate) fn association(&self) -> Result<u16, AspRequestError<L::AsId>> {
        self.outbound_streams.ok_or(AspRequestError::NoAssociation)
    }

    /// With single exchange, an acknowledgement must have one meaning at both ends.
    fn require_confirmed(&self) -> Result<(), AspRequestError<L::AsId>> {
        let is_outstanding = self.outstanding.is_some()
            || (self.servers.values()).any(|served| served.outstanding.is_some());
        if (self.follows.aspsm || self.follows.asptm) && is_outstanding {
            Err(AspRequestError::RequestOutstanding)
        } else {
            Ok(())
        }
    }

    pub(super) fn require_up(&self) -> Result<(), AspRequestError<L::AsId>> {
        self.association()?;
        if self.up {
            Ok(())
        } else {
            Err(AspRequestError::NotUp)
        }
    }

    /// Returns the application servers of a request.
    pub(super) fn requested(
        &self,
        ids: Option<&AsIds<L::AsId>>,
    ) -> Result<Vec<Option<L::AsId>>, AspRequestError<L::AsId>> {
        self.require_up()?;
        let (known, unknown) = self.addressed(ids);
        match unknown
            .as_ref()
            .and_then(|unknown| unknown.ranges().first())
        {
            Some((id, _)) => Err(AspRequestError::UnknownApplicationServer(Some(id.clone()))),
            None => Ok(known),
        }
    }

    /// Returns an application server in which the ASP is active.
    pub(crate) fn active(
        &self,
        id: Option<L::AsId>,
    ) -> Result<&L::Served, AspRequestError<L::AsId>> {
        match self.servers.get(&id) {
            None => Err(AspRequestError::UnknownApplicationServer(id)),
            Some(served) if served.state == AspState::Active => Ok(&served.server),
            Some(_) => Err(AspRequestError::NotActive),
        }
    }

    /// Sends a message of the user on the stream of its traffic flow.
    pub(crate) fn send_traffic(
        &mut self,
        flow: u32,
        message: L::Message,
    ) -> Result<(), AspRequestError<L::AsId>> {
        let streams = self.association()?;
        let stream = data_stream(flow, streams).ok_or(AspRequestError::NoDataStream)?;
        self.transmits.push_back(Transmit::on(stream, message));
        Ok(())
    }

    /// Sends ASP Up or ASP Down and starts T(ack).
    pub(super) fn request_state(&mut self, now: Time, request: StateRequest) {
        if let Some(outstanding) = self.outstanding {
            // One confirm answers both requests.
            if outstanding.request == request {
                return;
            }
            self.confirm_state(outstanding.request, Err(RequestFailure::Superseded));
        }
        self.start_state_request(now, request, 1);
    }

    pub(super) fn start_state_request(
        &mut self,
        now: Time,
        request: StateRequest,
        transmissions: u32,
    ) {
        let deadline = now + self.config.t_ack;
        self.set_state_request(Some(Outstanding {
            request,
            deadline,
            transmissions,
        }));
        self.send_maintenance(match request {
            StateRequest::Up => Maintenance::AspUp(AspUp {
                asp_identifier: self.config.identifier,
                info: self.config.info.clone(),
            }),
            StateRequest::Down => Maintenance::AspDown(AspDown::default()),
        });
    }

    /// Replaces the ASPSM request that waits; returns the previous one.
    pub(super) fn set_state_request(
        &mut self,
        next: Option<Outstanding<StateRequest>>,
    ) -> Option<Outstanding<StateRequest>> {
        let previous = std::mem::replace(&mut self.outstanding, next);
        let deadline = |outstanding: Option<Outstanding<_>>| outstanding.map(|o| o.deadline);
        let (stopped, started) = (deadline(previous), deadline(next));
        self.deadlines.reschedule(Timer::State, stopped, started);
        previous
    }

    pub(super) fn take_state_request(&mut self) -> Option<Outstanding<StateRequest>> {
        self.set_state_request(None)
    }

    /// Replaces the ASPTM request of an application server that waits; returns the previous one.
    pub(super) fn set_traffic_request(
        &mut self,
        id: &ServedId<L::AsId>,
        next: Option<Outstanding<TrafficRequest>>,
    ) -> Option<Outstanding<TrafficRequest>> {
        let served = self.servers.get_mut(id)?;
        let previous = std::mem::replace(&mut served.outstanding, next);
        if let Some(stopped) = previous {
            let timer = Timer::Traffic(stopped.request, id.clone());
            self.deadlines
                .reschedule(timer, Some(stopped.deadline), None);
        }
        if let Some(started) = next {
            let timer = Timer::Traffic(started.request, id.clone());
            self.deadlines
                .reschedule(timer, None, Some(started.deadline));
        }
        previous
    }

    /// Sends ASP Active or ASP Inactive and starts T(ack), but for application servers whose request is outstanding.
    pub(super) fn request_traffic(
        &mut self,
        now: Time,
        request: TrafficRequest,
        mut ids: Vec<Option<L::AsId>>,
    ) {
        ids.retain(|id| {
            let served = self.servers.get(id);
            let outstanding = served.and_then(|served| served.outstanding);
            outstanding.map(|o| o.request) != Some(request)
        });
        for id in &ids {
            self.fail_traffic_request(id, RequestFailure::Superseded);
            if let Some(served) = self.servers.get_mut(id) {
                served.wanted = match request {
                    TrafficRequest::Activate => WantedTraffic::Active,
                    TrafficRequest::Deactivate => WantedTraffic::Inactive,
                };
            }
            let outstanding = Outstanding {
                request,
                deadline: now + self.config.t_ack,
                transmissions: 1,
            };
            self.set_traffic_request(id, Some(outstanding));
        }
        self.send_traffic_requests(request, &ids);
    }

    /// Sends a request for application servers: one message for all with the same traffic mode and label.
    pub(super) fn send_traffic_requests(
        &mut self,
        request: TrafficRequest,
        ids: &[Option<L::AsId>],
    ) {
        let mut messages: BTreeMap<Activation<L::Label>, Vec<L::AsId>> = BTreeMap::new();
        for id in ids {
            let served = self.servers.get(id).map(|served| &served.server);
            let activation = match request {
                TrafficRequest::Activate => served.map(L::activation).unwrap_or_default(),
                TrafficRequest::Deactivate => Activation::default(),
            };
            messages.entry(activation).or_default().extend(id.clone());
        }
        for (activation, ids) in messages {
            let mut lists: Vec<_> = L::lists(ids).into_iter().map(Some).collect();
            // The only application server may have no identifier.
            if lists.is_empty() {
                lists.push(None);
            }
            for ids in lists {
                self.send_maintenance(match request {
                    TrafficRequest::Activate => Maintenance::AspActive(activation.clone(), ids),
                    TrafficRequest::Deactivate => Maintenance::AspInactive(ids),
                });
            }
        }
    }

    pub(super) fn confirm_state(
        &mut self,
        request: StateRequest,
        result: Result<(), RequestFailure>,
    ) {
        self.indicate(match request {
            StateRequest::Up => AspEvent::AspUp(result),
            StateRequest::Down => AspEvent::AspDown(result),
        });
    }

    pub(super) fn confirm_traffic(
        &mut self,
        id: &ServedId<L::AsId>,
        request: TrafficRequest,
        result: Result<(), RequestFailure>,
    ) {
        self.indicate(match request {
            TrafficRequest::Activate => AspEvent::AspActive(id.clone(), result),
            TrafficRequest::Deactivate => AspEvent::AspInactive(id.clone(), result),
        });
    }

    /// Ends the outstanding request of an application server, if there is one.
    pub(super) fn fail_traffic_request(&mut self, id: &ServedId<L::AsId>, failure: RequestFailure) {
        if let Some(outstanding) = self.set_traffic_request(id, None) {
            self.confirm_traffic(id, outstanding.request, Err(failure));
        }
    }
}
