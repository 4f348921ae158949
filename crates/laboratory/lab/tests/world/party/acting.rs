//! Operations on paths, streams and keys, and the end of the association.

use carrick_proto::{
    AssociationId, AssociationMut, Endpoint, KeyError, OperationError, PathId, ReconfigError,
    SharedKeyId, StreamId, Time,
};

use super::{MAX_RETRIES, Party, REASON, RETRY, SETTLING};
use crate::world::extras::shared_key;
use crate::world::protection;
use crate::world::script::{Operation, Reconfiguration};
use crate::world::tuning::Tuning;

/// Performs an operation on the association or one of its paths.
fn change(
    association: &mut AssociationMut<'_>,
    path: PathId,
    operation: Operation,
) -> Result<(), OperationError> {
    match operation {
        Operation::SetPrimary => association.set_primary(path),
        Operation::RequestHeartbeat => association.request_heartbeat(path),
        Operation::SetHeartbeat(on) => association.set_heartbeat(path, on),
        Operation::SetFailureThreshold(n) => association.set_failure_threshold(path, n),
        Operation::SetPathMtu(mtu) => association.set_path_mtu(path, mtu),
        Operation::SetStreamValue(stream, value) => {
            association.set_stream_value(StreamId(stream), value)
        }
        Operation::SetScheduler(scheduler) => {
            association.set_scheduler(scheduler);
            Ok(())
        }
        _ => Ok(()),
    }
}

impl Party {
    pub(super) fn operate(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(current) = self.current.filter(|c| c.established && !c.closed) else {
            return;
        };
        while let Some(&(at, path, operation)) = self.script.operations.get(self.operation) {
            if current.start + at > now {
                return;
            }
            self.operation += 1;
            let id = current.id;
            let paths = endpoint.association(id).into_iter().flat_map(|a| a.paths());
            let paths: Vec<PathId> = paths.map(|path| path.id).collect();
            let nth = usize::from(path) % paths.len().max(1);
            // Numbers of removed paths are skipped.
            let path = paths.get(nth).copied().unwrap_or(PathId(0));
            let result = match operation {
                Operation::AddKey(_)
                | Operation::ActivateKey(_)
                | Operation::DeactivateKey(_)
                | Operation::DeleteKey(_) => {
                    self.change_key(now, endpoint, id, operation);
                    continue;
                }
                Operation::SealWith(key) => {
                    let sealed = protection::seal_with(endpoint, id, Some(key));
                    self.ledger.borrow_mut().seen.sealing_changes += u64::from(sealed);
                    continue;
                }
                Operation::Tune(tuning) => {
                    let result = tuning.act(now, endpoint, id, path);
                    self.note_tuning(tuning, result.is_ok());
                    result
                }
                operation => match endpoint.association_mut(now, id) {
                    Some(mut association) => change(&mut association, path, operation),
                    None => Err(OperationError::UnknownAssociation),
                },
            };
            self.log(now, || format!("{operation:?} {path:?}: {result:?}"));
            if let Err(error @ (OperationError::UnknownPath | OperationError::UnknownAssociation)) =
                result
            {
                self.fail(format!("{operation:?} on {path:?}: {error}"));
            }
        }
    }

    fn note_tuning(&self, tuning: Tuning, done: bool) {
        let seen = &mut self.ledger.borrow_mut().seen;
        match tuning {
            Tuning::Thresholds { .. } => seen.thresholds += u64::from(done),
            Tuning::Encapsulation(_) => seen.encapsulations += u64::from(done),
            // Counted when the peer has responded.
            Tuning::PeerPrimary(_) => {}
        }
    }

    /// Changes keys in the way of two sides that coordinate outside of the association: no key is
    /// used that the peer does not have, and none is deleted that it uses.
    fn change_key(
        &self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        operation: Operation,
    ) {
        let side = self.setting.side;
        let [peer_has, peer_uses] = {
            let keys = &self.ledger.borrow().keys[1 - side];
            [keys.known.clone(), keys.active.into_iter().collect()]
        };
        let suits = match operation {
            Operation::ActivateKey(n) => peer_has.contains(&n),
            Operation::DeleteKey(n) => !peer_uses.contains(&n),
            _ => true,
        };
        if !suits {
            return;
        }
        let Some(mut association) = endpoint.association_mut(now, id) else {
            return self.fail(format!("{operation:?}: no association"));
        };
        let result = match operation {
            Operation::AddKey(n) => association.add_key(shared_key(n)),
            Operation::ActivateKey(n) => association.activate_key(SharedKeyId(n)),
            Operation::DeactivateKey(n) => association.deactivate_key(SharedKeyId(n)),
            Operation::DeleteKey(n) => association.delete_key(SharedKeyId(n)),
            _ => return,
        };
        drop(association);
        self.log(now, || format!("{operation:?}: {result:?}"));
        let mut ledger = self.ledger.borrow_mut();
        match (result, operation) {
            (Ok(()), Operation::AddKey(n)) => {
                ledger.keys[side].known.insert(n);
            }
            (Ok(()), Operation::ActivateKey(n)) => {
                ledger.keys[side].active = Some(n);
                ledger.seen.key_changes += 1;
            }
            (Ok(()), Operation::DeleteKey(n)) => {
                ledger.keys[side].known.remove(&n);
            }
            (Err(KeyError::TooManyKeys), _) => {
                ledger.fail(format!("side {side}: {operation:?}: {result:?}"));
            }
            _ => {}
        }
    }

    /// Requests the next re-configuration of the script. It is refused if the time is not suitable.
    pub(super) fn reconfigure(&mut self, now: Time, endpoint: &mut Endpoint) {
        let Some(current) = self.current.filter(|c| c.established && !c.closed) else {
            return;
        };
        while let Some((at, reconfiguration)) = self
            .script
            .reconfigurations
            .get(self.reconfiguration)
            .cloned()
        {
            if current.start + at > now {
                return;
            }
            self.reconfiguration += 1;
            let id = current.id;
            let Some(stats) = endpoint.association(id).map(|a| a.stats()) else {
                return;
            };
            let Some(mut association) = endpoint.association_mut(now, id) else {
                return self.fail(format!("{reconfiguration:?}: no association"));
            };
            let result = match &reconfiguration {
                Reconfiguration::Reset(direction, streams) => {
                    let both = stats.outbound_streams.min(stats.inbound_streams).max(1);
                    let streams: Vec<_> = streams.iter().map(|s| StreamId(s % both)).collect();
                    association.reset_streams(*direction, &streams)
                }
                Reconfiguration::ResetAssociation => association.reset_association(),
                Reconfiguration::Add(outgoing, incoming) => {
                    association.add_streams(*outgoing, *incoming)
                }
            };
            drop(association);
            self.log(now, || format!("{reconfiguration:?}: {result:?}"));
            match result {
                Ok(()) => self.ledger.borrow_mut().seen.reconfigurations += 1,
                Err(
                    error @ (ReconfigError::InvalidStream { .. }
                    | ReconfigError::ListTooLong { .. }),
                ) => self.fail(format!("{reconfiguration:?}: {error}")),
                Err(_) => {}
            }
        }
    }

    /// Returns the time of the next attempt of an operation that needs the association; `None` if
    /// it was never established.
    pub(super) fn retry(&mut self, now: Time) -> Option<Time> {
        self.retries += 1;
        (self.retries < MAX_RETRIES).then(|| now + RETRY)
    }

    pub(super) fn end_due(&mut self, now: Time, endpoint: &mut Endpoint) {
        let due = |at: &mut Option<Time>| at.take_if(|at| *at <= now).is_some();
        if due(&mut self.script.restart_at) {
            // A late COOKIE ECHO must not be taken for one of the second association.
            let settled = |since: &Option<Time>| since.is_some_and(|at| at + SETTLING <= now);
            let up = self.ledger.borrow().up.iter().all(settled);
            let ended = self.current.is_some_and(|c| c.closed);
            if up || !self.script.restarts_settled {
                self.restart_due = true;
            } else if !ended {
                self.script.restart_at = self.retry(now);
            }
        }
        let (mut aborts, mut shuts) = (self.script.abort_at, self.script.shutdown_at);
        let (aborts, shuts) = (due(&mut aborts), due(&mut shuts));
        let Some(current) = self.current.filter(|c| !c.closed) else {
            // An association may still be established.
            if aborts || shuts {
                let later = self.retry(now).filter(|_| self.current.is_none());
                self.script.abort_at = later.filter(|_| aborts);
                self.script.shutdown_at = later.filter(|_| shuts);
            }
            return;
        };
        if aborts {
            self.script.abort_at = None;
        }
        if shuts {
            self.script.shutdown_at = None;
        }
        if aborts {
            let result = endpoint.abort(now, current.id, REASON);
            self.log(now, || format!("abort: {result:?}"));
        } else if shuts && !current.established && self.script.patient {
            self.script.shutdown_at = self.retry(now);
        } else if shuts {
            let result = endpoint.shutdown(now, current.id);
            self.log(now, || format!("shutdown: {result:?}"));
        }
    }
}
