//! Congestion window of a TCP connection.

use carrick_proto::cc::{Acknowledged, Algorithm, CongestionEvent, Controller, Cubic, Parameters};

use super::TcpCongestion;

/// Congestion window in bytes.
#[derive(Debug)]
pub(super) enum CongestionWindow {
    /// RFC 5681, section 3.1.
    Reno {
        smss: usize,
        cwnd: usize,
        ssthresh: usize,
    },
    /// RFC 9438, with the controller of the SCTP core.
    Cubic(Box<dyn Controller>),
}

impl CongestionWindow {
    pub(super) fn new(congestion: TcpCongestion, smss: usize) -> Self {
        match congestion {
            TcpCongestion::Reno | TcpCongestion::Packets => Self::Reno {
                smss,
                cwnd: match smss {
                    2191.. => 2 * smss,
                    1096.. => 3 * smss,
                    _ => 4 * smss,
                },
                ssthresh: usize::MAX,
            },
            TcpCongestion::Cubic => Self::Cubic(Cubic.start(Parameters {
                pmdcs: smss,
                ipv6: false,
                slow_start_limit: 1,
            })),
        }
    }

    /// Returns the window.
    pub(super) fn window(&self) -> usize {
        match self {
            Self::Reno { cwnd, .. } => *cwnd,
            Self::Cubic(controller) => controller.window(),
        }
    }

    /// Handles an acknowledgement of new data outside of Fast Recovery. Reno counts ACKs in congestion avoidance,
    /// equation (3), as RFC 2581 and the hosts of its time do.
    pub(super) fn on_ack(&mut self, acknowledged: &Acknowledged) {
        match self {
            Self::Reno {
                smss,
                cwnd,
                ssthresh,
            } => {
                *cwnd += if *cwnd < *ssthresh {
                    acknowledged.bytes.min(*smss)
                } else {
                    (*smss * *smss / *cwnd).max(1)
                };
            }
            Self::Cubic(controller) => controller.on_ack(acknowledged),
        }
    }

    /// Reduces the window after a loss with `flight` bytes outstanding (`FlightSize`): equation (4), and one
    /// segment after a timeout.
    pub(super) fn on_loss(&mut self, flight: usize, is_timeout: bool) {
        match self {
            Self::Reno {
                smss,
                cwnd,
                ssthresh,
            } => {
                *ssthresh = (flight / 2).max(2 * *smss);
                *cwnd = if is_timeout { *smss } else { *ssthresh };
            }
            Self::Cubic(controller) if is_timeout => {
                controller.on_congestion(CongestionEvent::Timeout)
            }
            Self::Cubic(controller) => controller.on_congestion(CongestionEvent::Loss),
        }
    }
}
