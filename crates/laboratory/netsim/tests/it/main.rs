//! Tests of the public interface, in one binary.

mod capture;
mod changes;
mod common;
mod impairments;
mod interfaces;
mod links;
mod mobile_handover;
mod mobile_messages;
mod mobile_pair;
mod mobile_registration;
mod mobile_tunnel;
mod mobile_world;
mod programs;
mod reproducible;
mod routes;
mod traffic;
