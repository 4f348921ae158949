//! Requests of layer management and of the MTP3-User (RFC 4666, sections 4.1 and 4.2).

use carrick_proto::Time;

use super::{
    Asp, AspActive, AspApplicationServer, AspDown, AspInactive, AspIndication, AspState, AspUp,
    Data, DestinationState, Message, Outstanding, PendingRegistration, RoutingContext,
    RoutingContexts, SignallingCongestion, StateRequest, TrafficMode, TrafficRequest, Transmit,
    WantedTraffic, data_stream,
};
use crate::m3ua::{
    AffectedPointCodes, CongestionLevel, DeregistrationRequest, ErrorCode, ProtocolData,
    RegistrationRequest, RoutingKey,
};

/// Request that is not possible in the current state. The fault is the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AspRequestError {
    /// There is no association.
    #[error("no association with the SGP: wait for M-SCTP_STATUS with the association up")]
    NoAssociation,
    /// The ASP is in ASP-DOWN.
    #[error("the ASP is in ASP-DOWN: request M-ASP_UP and wait for its confirm")]
    NotUp,
    /// The ASP is not in ASP-ACTIVE in the application server.
    #[error("the ASP is not in ASP-ACTIVE: request M-ASP_ACTIVE and wait for its confirm")]
    NotActive,
    /// The ASP does not serve the routing context.
    #[error(
        "the ASP does not serve {0:?}: add it to the configuration or register its routing key"
    )]
    UnknownRoutingContext(Option<RoutingContext>),
    /// The association has only stream 0, which is not for DATA.
    #[error(
        "the association has no stream for DATA beside stream 0: negotiate at least two streams"
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
    /// A routing key's Local-RK-Identifier is in use.
    #[error("Local-RK-Identifier {0} is in use until its registration response")]
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

impl Asp {
    /// M-ASP_UP request. The confirm follows, at once if the ASP is up. After a loss of the association the ASP Up procedure is repeated when
    /// it is established, until [`asp_down`](Self::asp_down) or a failed confirm.
    ///
    /// # Errors
    /// [`AspRequestError::NoAssociation`].
    pub fn asp_up(&mut self, now: Time) -> Result<(), AspRequestError> {
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
    pub fn asp_down(&mut self, now: Time) -> Result<(), AspRequestError> {
        self.require_confirmed()?;
        self.forget_wanted();
        self.association()?;
        self.request_state(now, StateRequest::Down);
        Ok(())
    }

    /// Ends the restoration of the states that layer management wanted.
    pub(super) fn forget_wanted(&mut self) {
        self.wanted = false;
        for served in &mut self.servers {
            served.wanted = WantedTraffic::Inactive;
        }
    }

    /// M-ASP_ACTIVE request for these routing contexts, for all application servers if the list is empty. A confirm
    /// follows for each. The ASP becomes active again after a loss, until [`asp_inactive`](Self::asp_inactive),
    /// [`asp_down`](Self::asp_down), another ASP's override or a failed confirm.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve a context; nothing is requested then.
    pub fn asp_active(
        &mut self,
        now: Time,
        contexts: &[RoutingContext],
    ) -> Result<(), AspRequestError> {
        self.require_confirmed()?;
        let indexes = self.requested(contexts)?;
        self.request_traffic(now, TrafficRequest::Activate, &indexes);
        Ok(())
    }

    /// M-ASP_INACTIVE request for these routing contexts, for all application servers if the list is empty. A
    /// confirm follows for each.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve a context; nothing is requested then.
    pub fn asp_inactive(
        &mut self,
        now: Time,
        contexts: &[RoutingContext],
    ) -> Result<(), AspRequestError> {
        self.require_confirmed()?;
        let indexes = self.requested(contexts)?;
        self.request_traffic(now, TrafficRequest::Deactivate, &indexes);
        Ok(())
    }

    /// M-RK_REG request. A confirm follows for each key; after a success the ASP serves the application server in
    /// ASP-INACTIVE. Without a response each fails after all transmissions of T(ack); it is not sent again.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN, an identifier is in use or the limit is reached; nothing is
    /// requested then.
    pub fn register(
        &mut self,
        now: Time,
        routing_keys: Vec<RoutingKey>,
    ) -> Result<(), AspRequestError> {
        self.require_up()?;
        let limit = self.config.max_application_servers;
        if self.servers.len() + self.registrations.len() + routing_keys.len() > limit {
            return Err(AspRequestError::TooManyRegistrations(limit));
        }
        let mut identifiers: Vec<_> = routing_keys.iter().map(|key| key.local_id).collect();
        identifiers.extend(self.registrations.iter().map(|pending| pending.local_id));
        identifiers.sort_unstable();
        if let Some(pair) = identifiers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(AspRequestError::IdentifierInUse(pair[0].0));
        }
        let deadline = now + self.config.t_ack * self.config.attempts.get();
        self.registrations
            .extend(routing_keys.iter().map(|key| PendingRegistration {
                local_id: key.local_id,
                traffic_mode: key.traffic_mode,
                network_appearance: key.network_appearance,
                deadline,
            }));
        self.send(Message::RegistrationRequest(RegistrationRequest {
            routing_keys,
        }));
        Ok(())
    }

    /// M-RK_DEREG request. A confirm follows for each routing context.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is in ASP-DOWN or does not serve a context; nothing is requested then.
    pub fn deregister(
        &mut self,
        now: Time,
        contexts: RoutingContexts,
    ) -> Result<(), AspRequestError> {
        let deadline = now + self.config.t_ack * self.config.attempts.get();
        for index in self.requested(&contexts)? {
            self.servers[index].deregistration = Some(deadline);
        }
        self.send(Message::DeregistrationRequest(DeregistrationRequest {
            routing_contexts: contexts,
        }));
        Ok(())
    }

    /// MTP-TRANSFER request in an application server. The SLS selects the stream.
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active there or there is no stream for DATA.
    pub fn transfer(
        &mut self,
        routing_context: Option<RoutingContext>,
        protocol_data: ProtocolData,
    ) -> Result<(), AspRequestError> {
        let server = self.active(routing_context)?;
        let streams = self.association()?;
        let stream =
            data_stream(protocol_data.sls, streams).ok_or(AspRequestError::NoDataStream)?;
        let data = Data {
            network_appearance: server.network_appearance,
            routing_context: server.routing_context,
            protocol_data,
            correlation_id: None,
        };
        self.transmits
            .push_back(Transmit::on(stream, Message::Data(data)));
        Ok(())
    }

    /// Sends a DAUD: audits destinations (RFC 4666, section 4.5.3).
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active in the application server.
    pub fn audit(
        &mut self,
        routing_context: Option<RoutingContext>,
        affected: AffectedPointCodes,
    ) -> Result<(), AspRequestError> {
        let server = self.active(routing_context)?;
        let audit = DestinationState {
            network_appearance: server.network_appearance,
            routing_contexts: RoutingContexts::new(server.routing_context),
            affected,
            info: None,
        };
        self.transmits
            .push_back(Transmit::management(Message::DestinationStateAudit(audit)));
        Ok(())
    }

    /// Sends an SCON: the congestion level of the ASP or its M3UA layer changed (RFC 4666, section 3.4.4).
    ///
    /// # Errors
    /// [`AspRequestError`] if the ASP is not active in the application server.
    pub fn congestion(
        &mut self,
        routing_context: Option<RoutingContext>,
        affected: AffectedPointCodes,
        level: Option<CongestionLevel>,
    ) -> Result<(), AspRequestError> {
        let server = self.active(routing_context)?;
        let congestion = SignallingCongestion {
            network_appearance: server.network_appearance,
            routing_contexts: RoutingContexts::new(server.routing_context),
            affected,
            concerned: None,
            level,
            info: None,
        };
        self.transmits
            .push_back(Transmit::management(Message::SignallingCongestion(
                congestion,
            )));
        Ok(())
    }

    fn association(&self) -> Result<u16, AspRequestError> {
        self.outbound_streams.ok_or(AspRequestError::NoAssociation)
    }

    /// With single exchange, an acknowledgement must have one meaning at both ends.
    fn require_confirmed(&self) -> Result<(), AspRequestError> {
        let is_outstanding = self.outstanding.is_some()
            || (self.servers.iter()).any(|served| served.outstanding.is_some());
        if (self.follows.aspsm || self.follows.asptm) && is_outstanding {
            Err(AspRequestError::RequestOutstanding)
        } else {
            Ok(())
        }
    }

    fn require_up(&self) -> Result<(), AspRequestError> {
        self.association()?;
        if self.up {
            Ok(())
        } else {
            Err(AspRequestError::NotUp)
        }
    }

    /// Returns the indexes of the application servers of a request.
    fn requested(&self, contexts: &[RoutingContext]) -> Result<Vec<usize>, AspRequestError> {
        self.require_up()?;
        let contexts = RoutingContexts::new(contexts.iter().copied());
        let (indexes, unknown) = self.addressed(contexts.as_ref());
        match unknown.first() {
            Some(&context) => Err(AspRequestError::UnknownRoutingContext(Some(context))),
            None => Ok(indexes),
        }
    }

    /// Returns an application server in which the ASP is active.
    fn active(
        &self,
        routing_context: Option<RoutingContext>,
    ) -> Result<AspApplicationServer, AspRequestError> {
        let index = self.find(routing_context);
        let index = index.ok_or(AspRequestError::UnknownRoutingContext(routing_context))?;
        let served = &self.servers[index];
        match served.state {
            AspState::Active => Ok(served.server),
            AspState::Inactive | AspState::Down => Err(AspRequestError::NotActive),
        }
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
        self.outstanding = Some(Outstanding {
            request,
            deadline: now + self.config.t_ack,
            transmissions: 1,
        });
        self.send_state_request(request);
    }

    pub(super) fn send_state_request(&mut self, request: StateRequest) {
        let message = match request {
            StateRequest::Up => Message::AspUp(AspUp {
                asp_identifier: self.config.identifier,
                info: self.config.info.clone(),
            }),
            StateRequest::Down => Message::AspDown(AspDown::default()),
        };
        self.send(message);
    }

    /// Sends ASP Active or ASP Inactive and starts T(ack), but for application servers whose request is outstanding.
    pub(super) fn request_traffic(
        &mut self,
        now: Time,
        request: TrafficRequest,
        indexes: &[usize],
    ) {
        let outstanding = |index: usize| self.servers[index].outstanding.map(|o| o.request);
        let mut new = indexes.to_vec();
        new.retain(|index| outstanding(*index) != Some(request));
        for &index in &new {
            self.fail_traffic_request(index, RequestFailure::Superseded);
            let served = &mut self.servers[index];
            served.wanted = match request {
                TrafficRequest::Activate => WantedTraffic::Active,
                TrafficRequest::Deactivate => WantedTraffic::Inactive,
            };
            served.outstanding = Some(Outstanding {
                request,
                deadline: now + self.config.t_ack,
                transmissions: 1,
            });
        }
        self.send_traffic_requests(request, &new);
    }

    /// Sends a request for application servers: one message for each traffic mode.
    pub(super) fn send_traffic_requests(&mut self, request: TrafficRequest, indexes: &[usize]) {
        let mode_of = |index: usize| match request {
            TrafficRequest::Activate => self.servers[index].server.traffic_mode,
            TrafficRequest::Deactivate => None,
        };
        let mut modes: Vec<Option<TrafficMode>> = indexes.iter().map(|&i| mode_of(i)).collect();
        modes.sort_unstable();
        modes.dedup();
        let messages: Vec<_> = modes
            .into_iter()
            .map(|traffic_mode| {
                let same = indexes
                    .iter()
                    .filter(|&&index| mode_of(index) == traffic_mode);
                let contexts = same.filter_map(|&i| self.servers[i].server.routing_context);
                let routing_contexts = RoutingContexts::new(contexts);
                let info = None;
                match request {
                    TrafficRequest::Activate => Message::AspActive(AspActive {
                        traffic_mode,
                        routing_contexts,
                        info,
                    }),
                    TrafficRequest::Deactivate => Message::AspInactive(AspInactive {
                        routing_contexts,
                        info,
                    }),
                }
            })
            .collect();
        for message in messages {
            self.send(message);
        }
    }

    pub(super) fn confirm_state(
        &mut self,
        request: StateRequest,
        result: Result<(), RequestFailure>,
    ) {
        self.indicate(match request {
            StateRequest::Up => AspIndication::AspUp(result),
            StateRequest::Down => AspIndication::AspDown(result),
        });
    }

    pub(super) fn confirm_traffic(
        &mut self,
        index: usize,
        request: TrafficRequest,
        result: Result<(), RequestFailure>,
    ) {
        let context = self.servers[index].server.routing_context;
        self.indicate(match request {
            TrafficRequest::Activate => AspIndication::AspActive(context, result),
            TrafficRequest::Deactivate => AspIndication::AspInactive(context, result),
        });
    }

    /// Ends the outstanding request of an application server, if there is one.
    pub(super) fn fail_traffic_request(&mut self, index: usize, failure: RequestFailure) {
        if let Some(outstanding) = self.servers[index].outstanding.take() {
            self.confirm_traffic(index, outstanding.request, Err(failure));
        }
    }
}
