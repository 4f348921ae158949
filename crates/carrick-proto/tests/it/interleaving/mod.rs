//! I-DATA: messages of several streams interleave (RFC 8260 sections 2 and 3).

mod agreement;
mod messages;
mod schedulers;
mod support;
mod violations;
