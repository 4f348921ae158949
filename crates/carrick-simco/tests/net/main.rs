//! Middlebox and agents on loopback sockets, over each transport.





mod session;
mod support;
