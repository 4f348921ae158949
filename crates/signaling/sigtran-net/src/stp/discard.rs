//! Messages that a signal transfer point discards, by reason.

use carrick_sigtran::m3ua::asp::AspRequestError;
use carrick_sigtran::m3ua::sgp::TransferError;

use super::StpCore;
use super::router::NoTarget;
use crate::mtp3::LinkSetError;

/// Reason for which a message was discarded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Discard {
    Screened,
    NoRoute,
    Unavailable,
    Circular,
    BufferFull,
    NoDataStream,
    TooLong,
}

impl Discard {
    const fn name(self) -> &'static str {
        match self {
            Self::Screened => "screened",
            Self::NoRoute => "no_route",
            Self::Unavailable => "unavailable",
            Self::Circular => "circular",
            Self::BufferFull => "buffer_full",
            Self::NoDataStream => "no_data_stream",
            Self::TooLong => "too_long",
        }
    }
}

impl From<NoTarget> for Discard {
    fn from(why: NoTarget) -> Self {
        match why {
            NoTarget::NoRoute => Self::NoRoute,
            NoTarget::Unavailable => Self::Unavailable,
            NoTarget::Circular => Self::Circular,
        }
    }
}

impl From<TransferError> for Discard {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::BufferFull => Self::BufferFull,
            TransferError::NoDataStream => Self::NoDataStream,
            TransferError::NoRoutingKey
            | TransferError::UnknownRoutingContext(_)
            | TransferError::NotActive(_) => Self::Unavailable,
        }
    }
}

impl From<LinkSetError> for Discard {
    fn from(error: LinkSetError) -> Self {
        match error {
            LinkSetError::Unavailable => Self::Unavailable,
            LinkSetError::BufferFull => Self::BufferFull,
            LinkSetError::TooLong => Self::TooLong,
        }
    }
}

impl From<AspRequestError> for Discard {
    fn from(error: AspRequestError) -> Self {
        match error {
            AspRequestError::NoDataStream => Self::NoDataStream,
            _ => Self::Unavailable,
        }
    }
}

impl StpCore {
    /// Returns the number of discarded messages by reason.
    pub(super) fn discards(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counters = self.node.counters;
        let reasons = [
            Discard::Screened,
            Discard::NoRoute,
            Discard::Unavailable,
            Discard::Circular,
            Discard::BufferFull,
            Discard::NoDataStream,
            Discard::TooLong,
        ];
        let routed = reasons.map(|reason| {
            let count = self.discarded.get(&reason).copied().unwrap_or_default();
            (reason.name(), count)
        });
        routed.into_iter().chain([
            ("congested", counters.congested),
            ("not_diverted", counters.not_diverted),
            ("recovery_expired", counters.recovery_expired),
            ("malformed", counters.malformed),
            ("not_m3ua", counters.other_protocol),
            ("not_encoded", counters.not_encoded),
        ])
    }
}
