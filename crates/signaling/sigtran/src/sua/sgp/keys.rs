//! Index of routing keys by destination addresses (RFC 3868, sections 1.4.2.2 and 3.10.14).

use std::collections::BTreeMap;

use super::{ApplicationServerConfig, Destinations};
use crate::sua::{Address, GlobalTitle, NetworkAppearance, Route, RoutingContext, SubsystemNumber};

/// Addresses that are compared with each other: in one network, with or without a subsystem number, and with this number
/// of digits of a global title.
type Scope = (Option<NetworkAppearance>, Option<SubsystemNumber>, usize);

/// Returns the routing part of an address without its subsystem number, so that addresses are ordered by it.
fn target(address: &Address) -> Route {
    /// Number of a subsystem that is not compared.
    const NONE: SubsystemNumber = SubsystemNumber(0);
    match address.route.clone() {
        Route::GlobalTitle { global_title, .. } => Route::GlobalTitle {
            global_title,
            point_code: None,
            ssn: None,
        },
        Route::PointCode { point_code, .. } => Route::PointCode {
            ssn: NONE,
            point_code,
            global_title: None,
        },
        Route::HostName { host_name, .. } => Route::HostName {
            host_name,
            ssn: None,
        },
        Route::IpAddress { address, .. } => Route::IpAddress { ssn: NONE, address },
    }
}

/// Returns the number of digits of a global title, 0 of other addresses.
fn digits(address: &Address) -> usize {
    match &address.route {
        Route::GlobalTitle { global_title, .. } => global_title.digits.len(),
        _ => 0,
    }
}

/// Returns whether both ends of a range are of one kind, and global titles differ in their digits alone.
fn is_range(first: &Route, last: &Route) -> bool {
    let same_kind = match (first, last) {
        (
            Route::GlobalTitle {
                global_title: first,
                ..
            },
            Route::GlobalTitle {
                global_title: last, ..
            },
        ) => {
            let with_digits = GlobalTitle {
                digits: first.digits.clone(),
                ..last.clone()
            };
            with_digits == *first
        }
        _ => std::mem::discriminant(first) == std::mem::discriminant(last),
    };
    same_kind && first <= last
}

/// Range of destinations in a scope: the scope, the first and the last destination.
type KeyPart = (Scope, Route, Route);

/// Returns the ranges of a routing key, `None` if one is no range of addresses.
pub(super) fn parts(server: &ApplicationServerConfig) -> Option<Vec<KeyPart>> {
    let part = |first: &Address, last: &Address| {
        let scope = |end: &Address| (server.network_appearance, end.ssn(), digits(end));
        let (first_route, last_route) = (target(first), target(last));
        let valid = scope(first) == scope(last) && is_range(&first_route, &last_route);
        let scope = scope(first);
        valid.then_some((scope, first_route, last_route))
    };
    match &server.destinations {
        Destinations::Unrouted => Some(Vec::new()),
        Destinations::Address(address) => Some(vec![part(address, address)?]),
        Destinations::Ranges(ranges) => {
            let parts = ranges.iter().map(|[first, last]| part(first, last));
            parts.collect()
        }
    }
}

/// Application servers by the ranges of their destinations. Ranges with one scope do not overlap, so that an address is
/// found in a number of steps that does not grow with the number of keys, but by the logarithm of the index.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex(BTreeMap<(Scope, Route), (Route, RoutingContext)>);

impl KeyIndex {
    /// Adds a routing key that overlaps no other one.
    pub(in crate::sua) fn insert(&mut self, server: &ApplicationServerConfig) {
        for (scope, first, last) in parts(server).unwrap_or_default() {
            self.0
                .insert((scope, first), (last, server.routing_context));
        }
    }

    /// Removes a routing key.
    pub(in crate::sua) fn remove(&mut self, server: &ApplicationServerConfig) {
        for (scope, first, _) in parts(server).unwrap_or_default() {
            self.0.remove(&(scope, first));
        }
    }

    /// Returns the application server with a destination in a scope.
    fn owner(&self, scope: Scope, destination: &Route) -> Option<RoutingContext> {
        let key = (scope, destination.clone());
        let ((found, _), (last, context)) = self.0.range(..=key).next_back()?;
        (*found == scope && destination <= last).then_some(*context)
    }

    /// Returns the application server of an address. A key with the subsystem number precedes one without, a key with the
    /// network appearance one without.
    pub(super) fn find(
        &self,
        network: Option<NetworkAppearance>,
        destination: &Address,
    ) -> Option<RoutingContext> {
        let (ssn, digits, target) = (destination.ssn(), digits(destination), target(destination));
        let scopes = [(network, ssn), (network, None), (None, ssn), (None, None)];
        scopes
            .into_iter()
            .find_map(|(network, ssn)| self.owner((network, ssn, digits), &target))
    }

    /// Returns an application server with a destination of a key in the same scope, or that of the key itself if its own
    /// ranges overlap, or one is no range.
    pub(in crate::sua) fn overlapping(
        &self,
        server: &ApplicationServerConfig,
    ) -> Option<RoutingContext> {
        let Some(mut parts) = parts(server) else {
            return Some(server.routing_context);
        };
        parts.sort_unstable();
        let overlaps_itself = parts.windows(2).any(|pair| {
            let ((scope, _, last), (next_scope, first, _)) = (&pair[0], &pair[1]);
            scope == next_scope && first <= last
        });
        if overlaps_itself {
            return Some(server.routing_context);
        }
        parts.iter().find_map(|(scope, first, last)| {
            let inside = || {
                let from = (*scope, first.clone());
                let mut inside = self.0.range(from..=(*scope, last.clone()));
                inside.next().map(|(_, (_, context))| *context)
            };
            self.owner(*scope, first).or_else(inside)
        })
    }

    /// Returns the application server that has the first destination of a key in its scope.
    pub(super) fn candidate(&self, server: &ApplicationServerConfig) -> Option<RoutingContext> {
        let parts = parts(server)?;
        let (scope, first, _) = parts.first()?;
        self.owner(*scope, first)
    }
}
