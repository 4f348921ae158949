//! Heartbeats of one path: reachability, verification and round-trip times (sections 5.4 and 8.3).

use core::net::IpAddr;
use core::time::Duration;

use carrick_wire::padded;

use super::{Path, PathChange, PathId, Paths};
use crate::config::AssociationConfig;
use crate::random::Random;
use crate::time::Time;

/// Length in bytes of the Heartbeat Info that this side sends: a nonce and the number of the path.
pub(crate) const INFO_LEN: usize = 12;

/// Bytes of the HEARTBEAT chunk that carries [`INFO_LEN`] bytes.
pub(crate) const CHUNK_LEN: usize = 4 + padded(4 + INFO_LEN);

/// Heartbeats on a path per RTO.Max, at most, while data waits and no path is usable.
const TRIALS_PER_RTO_MAX: u32 = 16;

/// Request of a heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum HeartbeatRequest {
    None,
    /// A heartbeat is to be sent, whatever the timer is, when none is waited for.
    WhenNoneAwaited,
    /// It is to be sent although another one is waited for, as a [`Trial`](super::source::Trial) of the present source.
    AtOnce,
}

portable_enum! { HeartbeatRequest { 0: None, 1: WhenNoneAwaited, 2: AtOnce } }

/// Heartbeat state of one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeartbeatState {
    /// Heartbeats are sent while the path is idle.
    pub(super) enabled: bool,
    /// HB.interval of this path; `None` for that of the association.
    interval: Option<Duration>,
    /// Time of the next heartbeat.
    due: Option<Time>,
    /// The last heartbeat, unless it was acknowledged.
    outstanding: Option<OutstandingHeartbeat>,
    /// Time of the last heartbeat.
    last_sent: Option<Time>,
    request: HeartbeatRequest,
    /// New data was sent since the timer was set, so that the path is not idle.
    used: bool,
    /// New data gave no RTT sample because its SACK arrived on another path; a heartbeat has to measure the
    /// RTT.
    unmeasured: bool,
    /// Round-trip time of the last acknowledged heartbeat, or of the set-up before the first, in microseconds; 0 for
    /// none.
    rtt: u32,
}

portable_struct! {
    HeartbeatState { enabled, interval, due, outstanding, last_sent, request, used, unmeasured, rtt }
}

/// A heartbeat that is not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct OutstandingHeartbeat {
    nonce: u64,
    sent: Time,
    /// Time at which it counts as lost; `None` once it was counted. A late HEARTBEAT ACK still proves the
    /// path.
    expires: Option<Time>,
}

portable_struct! { OutstandingHeartbeat { nonce, sent, expires } }

/// Effect of the expiry of a path's heartbeat timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeartbeatExpiry {
    /// The next heartbeat may be due; none was lost.
    NoLoss,
    /// A heartbeat was lost, which T3-rtx decides about, since data is outstanding on the path (RFC 7829
    /// section 3.2, rule 6).
    LeftToT3,
    /// A heartbeat was lost, which is an error of the path.
    Error,
}

/// Result of the nonce check of a HEARTBEAT ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeartbeatAnswer {
    /// The heartbeat was not sent by this side, or was acknowledged before.
    Unknown,
    /// A heartbeat, sent at this time, was acknowledged and gave an RTT sample.
    Measured(Time),
    /// A trial of another source was acknowledged, a heartbeat sent at `sent`.
    Trial { source: IpAddr, sent: Time },
    /// A probe of MTU discovery was acknowledged.
    Probe,
}

impl HeartbeatState {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            interval: None,
            due: None,
            outstanding: None,
            last_sent: None,
            request: HeartbeatRequest::None,
            used: false,
            unmeasured: false,
            rtt: 0,
        }
    }

    /// Sets the next heartbeat: after the interval plus the RTO with its jitter.
    fn schedule(&mut self, now: Time, interval: Duration, rto: Duration, random: &mut Random) {
        self.due = Some(now + interval + random.jitter(rto));
        self.used = false;
        self.unmeasured = false;
    }

    /// Returns whether a heartbeat may be sent: it is requested, and none is waited for, unless it is to
    /// leave at once.
    fn may_leave(&self) -> bool {
        match self.request {
            HeartbeatRequest::None => false,
            HeartbeatRequest::WhenNoneAwaited => !self.is_awaited(),
            HeartbeatRequest::AtOnce => true,
        }
    }

    fn is_awaited(&self) -> bool {
        self.outstanding.is_some_and(|h| h.expires.is_some())
    }

    /// Requests a heartbeat, at least as soon as one that is requested already.
    fn request(&mut self, request: HeartbeatRequest) {
        self.request = self.request.max(request);
    }

    /// Requests a heartbeat if heartbeats are enabled and none is waited for.
    pub(super) fn request_unless_awaited(&mut self) {
        if self.enabled && !self.is_awaited() {
            self.request(HeartbeatRequest::WhenNoneAwaited);
        }
    }

    /// Takes a request back.
    pub(super) fn cancel_request(&mut self) {
        self.request = HeartbeatRequest::None;
    }

    /// Ends the waiting for the outstanding heartbeat: it can't count as lost.
    pub(super) fn stop_waiting(&mut self) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.expires = None;
        }
    }

    /// Returns whether nothing that measures the path was sent since the timer was set (section 8.3).
    fn is_idle(&self) -> bool {
        !self.used || self.unmeasured
    }

    /// Records a heartbeat that is sent and is lost after `timeout`. Returns nonce and time of the one before that
    /// was not acknowledged.
    fn sent(&mut self, nonce: u64, now: Time, timeout: Duration) -> Option<(u64, Time)> {
        let before = self.take_outstanding();
        self.outstanding = Some(OutstandingHeartbeat {
            nonce,
            sent: now,
            expires: Some(now + timeout),
        });
        self.last_sent = Some(now);
        self.request = HeartbeatRequest::None;
        before
    }

    /// Records a heartbeat that is sent while another one is waited for, which is lost after `timeout` at the
    /// latest.
    fn repeated(&mut self, now: Time, timeout: Duration) {
        let awaited = self.outstanding.as_mut();
        if let Some(expires) = awaited.and_then(|h| h.expires.as_mut()) {
            *expires = (now + timeout).min(*expires);
        }
        self.last_sent = Some(now);
        self.request = HeartbeatRequest::None;
    }

    /// Removes the outstanding heartbeat; returns its nonce and when it was sent.
    pub(super) fn take_outstanding(&mut self) -> Option<(u64, Time)> {
        self.outstanding.take().map(|h| (h.nonce, h.sent))
    }

    /// Returns when the outstanding heartbeat was sent if it has this nonce; it is acknowledged by that.
    fn answered(&mut self, nonce: u64, now: Time) -> Option<Time> {
        let acknowledged = self.outstanding.take_if(|h| h.nonce == nonce)?;
        self.take_rtt(now.since(acknowledged.sent));
        Some(acknowledged.sent)
    }

    pub(super) fn take_rtt(&mut self, rtt: Duration) {
        self.rtt = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
    }

    /// Round-trip time of the last acknowledged heartbeat, or of the set-up.
    pub(super) fn rtt(&self) -> Option<Duration> {
        (self.rtt > 0).then(|| Duration::from_micros(self.rtt.into()))
    }

    fn next_timeout(&self) -> Option<Time> {
        let expires = self.outstanding.and_then(|h| h.expires);
        crate::time::earliest(expires, self.due)
    }
}

impl Path {
    /// Returns when the heartbeat timer expires: the next heartbeat is due, or one counts as lost.
    #[inline]
    pub(crate) fn next_heartbeat_timeout(&self) -> Option<Time> {
        self.heartbeat.next_timeout()
    }

    /// Returns whether a heartbeat is to be sent.
    pub(crate) fn wants_heartbeat(&self) -> bool {
        self.heartbeat.may_leave()
    }

    /// Requests a heartbeat (section 11.1.10).
    pub(crate) fn request_heartbeat(&mut self) {
        self.heartbeat.request(HeartbeatRequest::WhenNoneAwaited);
    }

    /// Requests a heartbeat also if one is waited for, where heartbeats are enabled and none was sent at this
    /// time.
    pub(super) fn request_heartbeat_at_once(&mut self, now: Time) {
        if self.heartbeat.enabled && self.last_heartbeat().is_none_or(|sent| sent < now) {
            self.heartbeat.request(HeartbeatRequest::AtOnce);
        }
    }

    /// Returns when the last heartbeat was sent, acknowledged or not.
    fn last_heartbeat(&self) -> Option<Time> {
        let trial = self.trials.as_ref().and_then(|trials| trials.last());
        self.heartbeat.last_sent.max(trial)
    }

    /// Requests a heartbeat on a path that is not usable and may have returned, with quick failover: a packet of the peer arrived
    /// from there, data begins to wait, or an address or a route of the host changed. At most one leaves per RTO.Min
    /// and per SRTT: if the last one is not that old, the next one is due when it is.
    pub(crate) fn request_heartbeat_on_return(&mut self, now: Time, config: &AssociationConfig) {
        if !self.fails_over_quickly() || self.is_usable() {
            return;
        }
        let pause = self
            .rto
            .srtt()
            .unwrap_or_default()
            .max(config.timers.rto_min);
        let next = self.last_heartbeat().map(|last| last + pause);
        match next.filter(|at| now < *at) {
            None => self.request_heartbeat_at_once(now),
            Some(next) if self.heartbeat.enabled => {
                self.heartbeat.due = Some(self.heartbeat.due.map_or(next, |at| at.min(next)));
            }
            Some(_) => {}
        }
    }

    /// Requests a heartbeat where heartbeats are enabled and the path is inactive, since it has another source
    /// now.
    pub(super) fn request_heartbeat_if_inactive(&mut self) {
        if self.heartbeat.enabled && !self.active {
            self.heartbeat.request(HeartbeatRequest::AtOnce);
        }
    }

    /// Records that new data was sent, so that the path is not idle.
    #[inline]
    pub(crate) fn note_use(&mut self) {
        self.heartbeat.used = true;
    }

    /// Records that new data gave no RTT sample.
    pub(crate) fn note_missing_sample(&mut self) {
        self.heartbeat.unmeasured = true;
    }

    /// Enables or disables heartbeats: CHANGE HEARTBEAT (section 11.1.9).
    pub(crate) fn enable_heartbeats(
        &mut self,
        enabled: bool,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) {
        self.heartbeat.enabled = enabled;
        if !enabled && self.confirmed {
            self.heartbeat.due = None;
        } else if enabled && self.heartbeat.due.is_none() {
            self.schedule_heartbeat(now, config, random);
        }
    }

    /// Returns HB.interval of the path.
    pub(crate) fn heartbeat_interval(&self, config: &AssociationConfig) -> Duration {
        self.heartbeat.interval.unwrap_or(config.paths.hb_interval)
    }

    /// Sets HB.interval of the path. The next heartbeat is scheduled again, unless it is one that verifies
    /// the path or tests a potentially failed one, which follow the RTO.
    pub(crate) fn set_heartbeat_interval(
        &mut self,
        interval: Duration,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) {
        self.heartbeat.interval = Some(interval);
        if self.heartbeat.due.is_some() && self.confirmed && !self.potentially_failed {
            self.schedule_heartbeat(now, config, random);
        }
    }

    /// Sets the next heartbeat after HB.interval and the RTO with its jitter; with quick failover, for an
    /// inactive path without the back-off of the RTO.
    pub(super) fn schedule_heartbeat(
        &mut self,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) {
        let interval = self.heartbeat_interval(config);
        // The back-off of a path that failed does not add to the time until its return is noticed.
        let rto = if self.active || !self.fails_over_quickly() {
            self.rto.value()
        } else {
            self.rto.value().min(config.timers.rto_initial)
        };
        self.heartbeat.schedule(now, interval, rto, random);
    }

    /// Ends the waiting for a HEARTBEAT ACK if its time is over (section 8.3). `unconfirmed` is the number
    /// of the association's paths that are not confirmed, which share HB.Max.Burst. If `data_waits` for a
    /// usable path, T3-rtx alone backs off the RTO.
    fn expire_heartbeat(
        &mut self,
        now: Time,
        unconfirmed: u32,
        data_waits: bool,
        config: &AssociationConfig,
    ) -> HeartbeatExpiry {
        let expires = self.heartbeat.outstanding.and_then(|h| h.expires);
        if expires.is_none_or(|at| at > now) {
            return HeartbeatExpiry::NoLoss;
        }
        self.heartbeat.stop_waiting();
        if self.potentially_failed && self.flight.size() > 0 {
            if self.heartbeat.enabled {
                self.request_heartbeat();
            }
            return HeartbeatExpiry::LeftToT3;
        }
        let rto = self.rto.value();
        // No data is sent to a path that is not confirmed.
        if !data_waits || !self.confirmed {
            self.rto.back_off(config);
        }
        if !self.confirmed && self.active {
            let later = (unconfirmed / config.paths.hb_max_burst).saturating_sub(1);
            self.heartbeat.due = Some(now + rto * later);
        }
        HeartbeatExpiry::Error
    }

    /// Requests the heartbeat that is due, unless the path is confirmed, not potentially failed, not idle, and
    /// uses the selected source; then the next one is scheduled, after HB.interval and `rto` with its jitter.
    pub(crate) fn request_due_heartbeat(
        &mut self,
        now: Time,
        rto: Duration,
        config: &AssociationConfig,
        random: &mut Random,
    ) {
        if self.heartbeat.due.is_none_or(|at| at > now) {
            return;
        }
        let needed = !self.confirmed || self.potentially_failed || self.uses_expedient();
        if needed || self.heartbeat.is_idle() {
            // One that is waited for may be awaited for longer, if it left before data waited.
            let at_once = self.fails_over_quickly() && !self.is_usable();
            self.heartbeat.request(if at_once {
                HeartbeatRequest::AtOnce
            } else {
                HeartbeatRequest::WhenNoneAwaited
            });
            self.heartbeat.due = None;
        } else {
            let interval = self.heartbeat_interval(config);
            self.heartbeat.schedule(now, interval, rto, random);
        }
    }

    /// Records a heartbeat that is sent and returns its Heartbeat Info. While a path is not usable, the next
    /// one leaves after the RTO, but at most HB.interval later; if data waits and no path is usable, at most
    /// 1/16 of RTO.Max later: `data_waits`.
    pub(crate) fn heartbeat_sent(
        &mut self,
        now: Time,
        data_waits: bool,
        config: &AssociationConfig,
        random: &mut Random,
    ) -> [u8; INFO_LEN] {
        self.counters.heartbeats_sent += 1;
        if self.potentially_failed {
            // Once per RTO, which is when this one expires.
            self.heartbeat.due = None;
        } else if self.heartbeat.enabled || !self.confirmed {
            self.schedule_heartbeat(now, config, random);
        }
        let mut timeout = self.rto.value();
        if self.confirmed && !self.is_usable() && self.fails_over_quickly() {
            let interval = self.heartbeat_interval(config);
            let most = if data_waits {
                interval.min(config.timers.rto_max / TRIALS_PER_RTO_MAX)
            } else {
                interval
            };
            timeout = timeout.min(most.max(config.timers.rto_min));
            if data_waits && !self.active {
                self.heartbeat.due = Some(now + timeout);
            }
        }
        let nonce = random.u64();
        if self.heartbeat.is_awaited() {
            self.heartbeat.repeated(now, timeout);
            self.present_source_tried(nonce, now);
        } else {
            let before = self.heartbeat.sent(nonce, now, timeout);
            // Its answer may be late, and the next ones as late as that.
            if let Some((nonce, sent)) = before.filter(|_| data_waits) {
                self.present_source_tried(nonce, sent);
            }
        }
        info(nonce, self.id)
    }

    /// Checks the nonce of a HEARTBEAT ACK, and takes the RTT sample that it gives.
    pub(crate) fn on_heartbeat_ack(
        &mut self,
        nonce: u64,
        now: Time,
        config: &AssociationConfig,
    ) -> HeartbeatAnswer {
        if let Some(sent) = self.heartbeat.answered(nonce, now) {
            self.counters.heartbeats_answered += 1;
            self.rto.measured(now.since(sent), config);
            HeartbeatAnswer::Measured(sent)
        } else if let Some(trial) = self.take_trial(nonce) {
            self.counters.heartbeats_answered += 1;
            let sent = trial.sent;
            if trial.source == self.local {
                // The path works, whatever became of the one that is waited for.
                self.heartbeat.stop_waiting();
                self.on_trial_measured(sent, now, config);
                return HeartbeatAnswer::Measured(sent);
            }
            trial
                .source
                .map_or(HeartbeatAnswer::Unknown, |source| HeartbeatAnswer::Trial {
                    source,
                    sent,
                })
        } else if self.on_probe_ack(nonce, now) {
            HeartbeatAnswer::Probe
        } else {
            HeartbeatAnswer::Unknown
        }
    }

    /// Takes the RTT sample of a trial of what is the present source now.
    pub(crate) fn on_trial_measured(&mut self, sent: Time, now: Time, config: &AssociationConfig) {
        let rtt = now.since(sent);
        self.heartbeat.take_rtt(rtt);
        self.rto.measured(rtt, config);
    }

    /// Confirms the path (section 5.4); returns `false` if it was confirmed before.
    pub(crate) fn confirm(
        &mut self,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) -> bool {
        if self.confirmed {
            return false;
        }
        self.confirmed = true;
        self.restart_mtu_discovery();
        if config.paths.heartbeat {
            self.schedule_heartbeat(now, config, random);
        } else {
            self.heartbeat.due = None;
        }
        true
    }

    /// Clears the error counter after a HEARTBEAT ACK, unless the path is potentially failed and has data
    /// outstanding, or lost data that may be too large: heartbeats may be delivered where data is not, so the
    /// data decides (RFC 7829 section 3.2, rule 7), or a heartbeat of its size (RFC 8899 section 4.3).
    pub(crate) fn clear_errors_by_heartbeat(
        &mut self,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) -> Option<PathChange> {
        if self.active && self.doubts_data() || self.potentially_failed && self.flight.size() > 0 {
            let next = now + self.rto.value();
            self.heartbeat.due = self.heartbeat.enabled.then_some(next);
            return None;
        }
        self.clear_errors(now, config, random)
    }
}

impl Paths {
    /// Starts verification and monitoring when the association is established, with at most HB.Max.Burst
    /// heartbeats per RTO for verification (section 5.4).
    pub(crate) fn start_heartbeats(
        &mut self,
        now: Time,
        config: &AssociationConfig,
        random: &mut Random,
    ) {
        let mut unconfirmed = 0;
        for path in self.iter_mut() {
            path.restart_mtu_discovery();
            if path.encapsulation_unverified {
                path.request_heartbeat();
            }
            if !path.confirmed {
                let later = unconfirmed / config.paths.hb_max_burst;
                path.heartbeat.due = Some(now + path.rto.value() * later);
                unconfirmed += 1;
            } else if path.heartbeat.enabled {
                path.schedule_heartbeat(now, config, random);
            }
        }
    }

    /// Gives all paths HB.interval of the association.
    pub(crate) fn unset_heartbeat_intervals(&mut self) {
        for path in self.iter_mut() {
            path.heartbeat.interval = None;
        }
    }

    /// Ends the waiting for a HEARTBEAT ACK on a path if its time is over (section 8.3).
    pub(crate) fn expire_heartbeat(
        &mut self,
        id: PathId,
        now: Time,
        data_waits: bool,
        config: &AssociationConfig,
    ) -> HeartbeatExpiry {
        let unconfirmed = self.iter().filter(|p| !p.confirmed).count() as u32;
        self[id].expire_heartbeat(now, unconfirmed, data_waits, config)
    }

    /// Returns the path and the nonce in an echoed Heartbeat Info, if it has the form of this side's.
    pub(crate) fn parse_heartbeat_info(&self, info: &[u8]) -> Option<(PathId, u64)> {
        let (nonce, path) = parse_info(info)?;
        self.contains(path).then_some((path, nonce))
    }
}

/// Returns the Heartbeat Info with this nonce and the number of the path.
pub(super) fn info(nonce: u64, path: PathId) -> [u8; INFO_LEN] {
    let mut info = [0; INFO_LEN];
    info[..8].copy_from_slice(&nonce.to_be_bytes());
    info[8..].copy_from_slice(&u32::from(path.0).to_be_bytes());
    info
}

/// Returns the nonce and the path of a Heartbeat Info that this side sent.
fn parse_info(info: &[u8]) -> Option<(u64, PathId)> {
    let info: &[u8; INFO_LEN] = info.try_into().ok()?;
    let (nonce, path) = info.split_at(8);
    let nonce = u64::from_be_bytes(nonce.try_into().ok()?);
    let path = u8::try_from(u32::from_be_bytes(path.try_into().ok()?)).ok()?;
    Some((nonce, PathId(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nonce_that_was_sent_is_an_answer() {
        let mut heartbeat = HeartbeatState::new(true);
        let now = Time::from_millis(5);
        let nonce = 0x0123_4567_89ab_cdef;
        assert_eq!(heartbeat.sent(nonce, now, Duration::from_secs(1)), None);
        let info = info(nonce, PathId(3));
        assert_eq!(parse_info(&info), Some((nonce, PathId(3))));
        assert_eq!(heartbeat.answered(nonce ^ 1, now), None);
        assert_eq!(heartbeat.answered(nonce, now), Some(now));
        assert_eq!(
            heartbeat.answered(nonce, now),
            None,
            "an answer counts once"
        );
        assert_eq!(parse_info(&info[1..]), None);
    }

    #[test]
    fn the_period_is_interval_and_rto_with_jitter() {
        let mut random = Random::new([2; 32]);
        let mut heartbeat = HeartbeatState::new(true);
        for _ in 0..1000 {
            heartbeat.schedule(
                Time::ZERO,
                Duration::from_secs(30),
                Duration::from_secs(1),
                &mut random,
            );
            let due = heartbeat.due.unwrap();
            assert!(due >= Time::from_millis(30_500) && due < Time::from_millis(31_500));
        }
    }
}
