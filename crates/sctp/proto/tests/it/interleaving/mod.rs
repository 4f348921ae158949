//! I-DATA: messages of several streams interleave (RFC 8260 sections 2 and 3).

mod messages;
mod negotiation;
mod schedulers;
mod support;
mod violations;
