//! Routes: which link set or application server gets a message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carrick_sigtran::m3ua::route::Availability;
use carrick_sigtran::m3ua::{
    AffectedPointCode, NetworkAppearance, PointCode, ProtocolData, RoutingContext,
    RoutingKeyDestination,
};

use super::config::ServerSettings;

/// Origin or target of messages.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Target {
    LinkSet(Arc<str>),
    Server(RoutingContext),
}

/// Route to a destination or a range.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Route {
    pub(super) destination: AffectedPointCode,
    /// Network of the target; any if absent.
    pub(super) network_appearance: Option<NetworkAppearance>,
    /// Routes with a lower number are used first; equal ones share the load by SLS.
    pub(super) priority: u8,
    pub(super) target: Target,
}

/// Reason for which no target was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoTarget {
    /// No routing key and no route matches.
    NoRoute,
    /// All targets are unavailable.
    Unavailable,
    /// The only usable target is the link set from which the message came.
    Circular,
}

type Network = Option<NetworkAppearance>;

/// Routing keys and routes of a configuration.
#[derive(Debug, Default)]
pub(super) struct Router {
    keys: BTreeMap<(Network, PointCode), Vec<(RoutingKeyDestination, RoutingContext)>>,
    /// By network, mask and first point code; each in the order of priorities.
    routes: BTreeMap<(Network, u8, PointCode), Vec<(u8, Target)>>,
    /// Masks of routes in ascending order: the most specific route precedes.
    masks: BTreeSet<u8>,
}

impl Router {
    pub(super) fn new(servers: &[ServerSettings], routes: &[Route]) -> Self {
        let mut router = Self::default();
        for server in servers {
            let config = &server.config;
            for key in &config.destinations {
                let list = router.keys.entry((config.network_appearance, key.dpc));
                let context = config.routing_context;
                list.or_default().push((key.clone(), context));
            }
        }
        for route in routes {
            let mask = route.destination.mask;
            router.masks.insert(mask);
            let first = route.destination.aligned().point_code;
            let list = router
                .routes
                .entry((route.network_appearance, mask, first))
                .or_default();
            let at = list.partition_point(|(priority, _)| *priority <= route.priority);
            list.insert(at, (route.priority, route.target.clone()));
        }
        router
    }

    /// Chooses the target of a message: the application server whose routing key matches, then routes, the most specific
    /// one and the lowest priority number first. Targets that `is_back` names are those from which the message came.
    /// Returns the target with the part of the SLS that has not been used for the choice.
    pub(super) fn choose(
        &self,
        network: Network,
        data: &ProtocolData,
        is_back: impl Fn(&Target) -> bool,
        is_usable: impl Fn(&Target) -> bool,
    ) -> Result<(Target, u8), NoTarget> {
        let mut why = NoTarget::NoRoute;
        for network in networks(network) {
            let keys = self.keys.get(&(network, data.dpc)).into_iter().flatten();
            let (dpc, opc, si) = (data.dpc, data.opc, data.si);
            for (_, context) in keys.filter(|(key, _)| key.matches(dpc, opc, si)) {
                let target = Target::Server(*context);
                if is_back(&target) {
                    why = NoTarget::Circular;
                } else if is_usable(&target) {
                    return Ok((target, data.sls));
                } else {
                    why = NoTarget::Unavailable;
                }
            }
        }
        for routes in self.routes_of(network, AffectedPointCode::single(data.dpc)) {
            for group in routes.chunk_by(|(a, _), (b, _)| a == b) {
                let usable = || {
                    let targets = group.iter().map(|(_, target)| target);
                    targets.filter(|target| !is_back(target) && is_usable(target))
                };
                let count = usable().count();
                if let Some(index) = usize::from(data.sls).checked_rem(count)
                    && let Some(target) = usable().nth(index)
                {
                    return Ok((target.clone(), data.sls / count as u8));
                }
                let circular = group.iter().any(|(_, target)| is_back(target));
                why = if circular {
                    NoTarget::Circular
                } else {
                    NoTarget::Unavailable
                };
            }
        }
        Err(why)
    }

    /// Returns the availability of a destination, or of a range as a whole: that of the first targets that are usable,
    /// restricted if others precede them. `None` without a route.
    pub(super) fn availability(
        &self,
        network: Network,
        destination: AffectedPointCode,
        of: impl Fn(&Target) -> Availability,
    ) -> Option<Availability> {
        let groups = self.groups(network, destination);
        let best = |group: &Vec<Target>| group.iter().map(&of).max().unwrap_or_default();
        let preferred = groups.first().map(best)?;
        let found = groups
            .iter()
            .map(best)
            .find(|found| *found != Availability::Unavailable);
        Some(match found {
            Some(found) if preferred == Availability::Unavailable => {
                found.min(Availability::Restricted)
            }
            Some(found) => found,
            None => Availability::Unavailable,
        })
    }

    /// Returns the targets that carry the traffic of a destination, those with the same priority.
    pub(super) fn current(
        &self,
        network: Network,
        destination: AffectedPointCode,
        is_usable: impl Fn(&Target) -> bool,
    ) -> Vec<Target> {
        let groups = self.groups(network, destination).into_iter();
        let mut usable = groups.map(|mut group| {
            group.retain(&is_usable);
            group
        });
        usable.find(|group| !group.is_empty()).unwrap_or_default()
    }

    /// Returns whether a target has a route to a destination.
    pub(super) fn has_route(
        &self,
        network: Network,
        destination: AffectedPointCode,
        target: &Target,
    ) -> bool {
        let groups = self.groups(network, destination);
        groups.iter().any(|group| group.contains(target))
    }

    /// Returns the targets of a destination, those of routing keys first, then routes of the same priority together.
    fn groups(&self, network: Network, destination: AffectedPointCode) -> Vec<Vec<Target>> {
        let single = (destination.mask == 0).then_some(destination.point_code);
        let keys = networks(network).filter_map(|network| self.keys.get(&(network, single?)));
        let servers: Vec<_> = keys
            .flatten()
            .map(|(_, context)| Target::Server(*context))
            .collect();
        let routes = self.routes_of(network, destination).into_iter();
        let routes = routes.flat_map(|routes| routes.chunk_by(|(a, _), (b, _)| a == b));
        let routes = routes.map(|group| group.iter().map(|(_, target)| target.clone()).collect());
        let servers = (!servers.is_empty()).then_some(servers);
        servers.into_iter().chain(routes).collect()
    }

    /// Returns the application servers with routing keys for a point code, whatever limits the keys.
    pub(super) fn servers_of(
        &self,
        network: Network,
        dpc: PointCode,
    ) -> impl Iterator<Item = (&RoutingKeyDestination, RoutingContext)> {
        let keys = networks(network).filter_map(move |network| self.keys.get(&(network, dpc)));
        keys.flatten().map(|(key, context)| (key, *context))
    }

    /// Returns the destinations of routing keys and routes, with their networks.
    pub(super) fn destinations(&self) -> BTreeSet<(Network, AffectedPointCode)> {
        let keys = self.keys.keys();
        let keys = keys.map(|(network, dpc)| (*network, AffectedPointCode::single(*dpc)));
        let routes = self.routes.keys();
        let routes = routes
            .map(|&(network, mask, point_code)| (network, AffectedPointCode { mask, point_code }));
        keys.chain(routes).collect()
    }

    /// Returns the routes whose range contains a destination, the most specific one first.
    fn routes_of(&self, network: Network, destination: AffectedPointCode) -> Vec<&[(u8, Target)]> {
        let masks = self.masks.range(destination.mask..);
        masks
            .flat_map(|mask| networks(network).map(move |network| (network, *mask)))
            .filter_map(|(network, mask)| {
                let first = destination.widened(mask).point_code;
                self.routes.get(&(network, mask, first))
            })
            .map(Vec::as_slice)
            .collect()
    }
}

/// Networks of entries that a message of a network matches: its own, and those without a network appearance.
fn networks(network: Network) -> impl Iterator<Item = Network> {
    network.map(Some).into_iter().chain([None])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn route(code: u32, mask: u8, priority: u8, set: &str) -> Route {
        Route {
            destination: AffectedPointCode {
                mask,
                point_code: PointCode::new(code).unwrap(),
            },
            network_appearance: None,
            priority,
            target: Target::LinkSet(set.into()),
        }
    }

    fn message(dpc: u32, sls: u8) -> ProtocolData {
        ProtocolData {
            opc: PointCode::new(1).unwrap(),
            dpc: PointCode::new(dpc).unwrap(),
            si: 3,
            ni: 2,
            mp: 0,
            sls,
            user_data: Bytes::new(),
        }
    }

    fn chosen(router: &Router, dpc: u32, sls: u8, down: &[&str]) -> Result<String, NoTarget> {
        let from = Target::LinkSet("from".into());
        let usable = |target: &Target| match target {
            Target::LinkSet(name) => !down.contains(&&**name),
            Target::Server(_) => true,
        };
        let (target, _) = router.choose(None, &message(dpc, sls), |t| *t == from, usable)?;
        match target {
            Target::LinkSet(name) => Ok(name.to_string()),
            Target::Server(context) => Ok(context.0.to_string()),
        }
    }

    #[test]
    fn the_most_specific_available_route_is_chosen() {
        let router = Router::new(
            &[],
            &[
                route(16, 3, 1, "wide"),
                route(17, 0, 2, "second"),
                route(17, 0, 1, "first"),
                route(17, 0, 3, "from"),
                route(0, 14, 1, "default"),
            ],
        );
        let get = |dpc, down| chosen(&router, dpc, 0, down);
        assert_eq!(get(17, &[]), Ok("first".into()));
        assert_eq!(get(17, &["first"]), Ok("second".into()));
        assert_eq!(get(17, &["first", "second"]), Ok("wide".into()));
        assert_eq!(get(18, &["wide"]), Ok("default".into()));
        assert_eq!(get(18, &["wide", "default"]), Err(NoTarget::Unavailable));
        let circular = Router::new(&[], &[route(17, 0, 1, "from")]);
        assert_eq!(chosen(&circular, 17, 0, &[]), Err(NoTarget::Circular));
        assert_eq!(chosen(&circular, 18, 0, &[]), Err(NoTarget::NoRoute));
    }

    #[test]
    fn equal_priorities_share_the_load_by_sls() {
        let router = Router::new(&[], &[route(1, 0, 1, "a"), route(1, 0, 1, "b")]);
        let get = |sls, down| chosen(&router, 1, sls, down).unwrap();
        assert_eq!((get(0, &[]), get(1, &[])), ("a".into(), "b".into()));
        assert_eq!(get(1, &["b"]), "a");
        let rest = router.choose(None, &message(1, 7), |_| false, |_| true);
        assert_eq!(rest, Ok((Target::LinkSet("b".into()), 3)));
    }

    #[test]
    fn a_destination_is_available_by_any_of_its_routes() {
        let router = Router::new(&[], &[route(17, 0, 1, "a"), route(16, 3, 1, "b")]);
        let availability = |mask, code, down: &str| {
            let point_code = PointCode::new(code).unwrap();
            let range = AffectedPointCode { mask, point_code };
            let of = |target: &Target| {
                if *target == Target::LinkSet(down.into()) {
                    Availability::Unavailable
                } else {
                    Availability::Available
                }
            };
            router.availability(None, range, of)
        };
        assert_eq!(availability(0, 17, ""), Some(Availability::Available));
        assert_eq!(availability(0, 17, "a"), Some(Availability::Restricted));
        assert_eq!(availability(0, 18, "b"), Some(Availability::Unavailable));
        assert_eq!(availability(3, 16, "b"), Some(Availability::Unavailable));
        assert_eq!(availability(0, 99, ""), None);
        assert_eq!(router.destinations().len(), 2);
        let range = AffectedPointCode::single(PointCode::new(17).unwrap());
        let current = router.current(None, range, |target| *target != Target::LinkSet("a".into()));
        assert_eq!(current, [Target::LinkSet("b".into())]);
    }
}
