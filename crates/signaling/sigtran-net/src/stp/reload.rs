//! Changes of the configuration.

use std::sync::Arc;

use carrick_sigtran::m3ua::sgp::SgpConfig;
use carrick_sigtran::m3ua::{NetworkAppearance, RoutingContext};

use super::config::{LinkSetKind, LinkSetSettings, ServerSettings};
use super::router::{Router, Target};
use super::{StpConfig, StpCore, StpError, TargetKind, TargetState, Traffic};
use crate::mtp3::AdjacentRoutes;

impl StpCore {
    /// Changes the configuration:
    ///
    /// 1. End link sets that are gone or changed.
    /// 2. Remove ASPs that are gone or changed, and those of changed application servers.
    /// 3. Remove application servers that are gone or changed.
    /// 4. Add what is new or changed.
    /// 5. Replace routes and screening, and report destinations that changed.
    pub(super) fn apply(&mut self, config: StpConfig) -> Result<Vec<&'static str>, StpError> {
        let now = self.node.clock().now();
        let mut fixed = Vec::new();
        if config.listen != self.config.listen {
            fixed.push("listen");
        }
        if config.metrics != self.config.metrics {
            fixed.push("metrics");
        }
        if config.registration != self.config.registration {
            fixed.push("registration");
        }
        let old = std::mem::replace(&mut self.config, config);
        let new = self.config.clone();
        for set in old
            .link_sets
            .iter()
            .filter(|set| !new.link_sets.contains(set))
        {
            self.remove_link_set(set);
        }
        let is_changed = |context: &RoutingContext| {
            let of = |servers: &[ServerSettings]| {
                let mut servers = servers.iter();
                let found = servers.find(|server| server.config.routing_context == *context);
                found.cloned()
            };
            of(&old.servers) != of(&new.servers)
        };
        for asp in &old.asps {
            let changed = asp.application_servers.iter().any(is_changed);
            if (changed || !new.asps.contains(asp))
                && let Some(key) = self.asps.remove(&asp.name)
            {
                self.node.remove_asp(key);
            }
        }
        let gone = |server: &&ServerSettings| !new.servers.contains(server);
        for server in old.servers.iter().filter(gone) {
            let context = server.config.routing_context;
            self.node
                .gateway
                .sgp
                .remove_application_server(now, context)?;
            self.targets.remove(&Target::Server(context));
        }
        let added = |server: &&ServerSettings| !old.servers.contains(server);
        if new.servers.iter().any(|server| added(&server)) {
            // They could have the routing context or keys of a new one.
            for server in std::mem::take(&mut self.registered) {
                let context = server.config.routing_context;
                let sgp = &mut self.node.gateway.sgp;
                sgp.remove_application_server(now, context)?;
                self.targets.remove(&Target::Server(context));
            }
        }
        for server in new.servers.iter().filter(added) {
            let sgp = &mut self.node.gateway.sgp;
            sgp.add_application_server(server.config.clone())?;
            let target = Target::Server(server.config.routing_context);
            let network = server.config.network_appearance;
            let name = server.name.as_str().into();
            self.add_target(target, name, network, TargetKind::Server);
        }
        for asp in &new.asps {
            if !self.asps.contains_key(&asp.name) {
                let key = self.node.gateway.add_asp(asp.clone())?;
                self.asps.insert(asp.name.clone(), key);
            }
        }
        for set in new
            .link_sets
            .iter()
            .filter(|set| !old.link_sets.contains(set))
        {
            self.add_link_set(set)?;
        }
        self.update_router();
        self.update_destinations();
        Ok(fixed)
    }

    fn update_router(&mut self) {
        let servers: Vec<_> = self.servers().cloned().collect();
        self.router = Router::new(&servers, &self.config.routes);
    }

    /// Returns the application servers, those from registration included.
    pub(super) fn servers(&self) -> impl Iterator<Item = &ServerSettings> {
        self.config.servers.iter().chain(&self.registered)
    }

    /// An ASP has registered for an application server, or has left it: adds or removes the application server if it is
    /// not of the configuration.
    pub(super) fn update_registered(&mut self, context: RoutingContext) {
        let is = |server: &ServerSettings| server.config.routing_context == context;
        if self.config.servers.iter().any(is) {
            return;
        }
        let target = Target::Server(context);
        match self.node.gateway.sgp.application_server(context) {
            Some(config) if !self.registered.iter().any(is) => {
                let server = ServerSettings {
                    name: format!("registered-{}", context.0),
                    config: config.clone(),
                };
                let (name, network) = (server.name.as_str().into(), config.network_appearance);
                self.add_target(target, name, network, TargetKind::Server);
                self.registered.push(server);
            }
            Some(_) => return,
            None => {
                self.registered.retain(|server| !is(server));
                self.targets.remove(&target);
            }
        }
        self.update_router();
    }

    fn add_target(
        &mut self,
        target: Target,
        name: Arc<str>,
        network: Option<NetworkAppearance>,
        kind: TargetKind,
    ) {
        let state = TargetState {
            name,
            network_appearance: network,
            traffic: Traffic::default(),
            kind,
            is_congested: false,
            checked: 0,
        };
        self.targets.insert(target, state);
    }

    fn add_link_set(&mut self, set: &LinkSetSettings) -> Result<(), StpError> {
        let name: Arc<str> = set.name.as_str().into();
        let (kind, links) = match &set.kind {
            LinkSetKind::Asp(asp) => {
                let mut links = Vec::new();
                for gateway in &asp.gateways {
                    links.push(self.node.add_link(gateway.clone(), asp.asp_config())?);
                }
                let context = asp.server.routing_context;
                (TargetKind::Asp(context, links.clone()), links)
            }
            LinkSetKind::Ipsp(config) => {
                let (key, links) = self.node.add_ipsp(config.clone(), SgpConfig::default())?;
                (TargetKind::Ipsp(key), links)
            }
            LinkSetKind::M2pa(m2pa) => {
                let (key, links) = self.node.add_m2pa(m2pa.config())?;
                self.adjacent.insert(key, AdjacentRoutes::new(m2pa.point()));
                (TargetKind::M2pa(key), links)
            }
        };
        for key in links {
            self.link_sets.insert(key, Arc::clone(&name));
        }
        let target = Target::LinkSet(Arc::clone(&name));
        self.add_target(target, name, set.network_appearance, kind);
        Ok(())
    }

    fn remove_link_set(&mut self, set: &LinkSetSettings) {
        let target = Target::LinkSet(set.name.as_str().into());
        let Some(state) = self.targets.remove(&target) else {
            return;
        };
        self.link_sets.retain(|_, name| **name != *set.name);
        match state.kind {
            TargetKind::Server => {}
            TargetKind::Asp(_, links) => {
                for key in links {
                    self.node.remove_link(key);
                }
            }
            TargetKind::Ipsp(key) => self.node.remove_ipsp(key),
            TargetKind::M2pa(key) => {
                self.adjacent.remove(&key);
                self.restarted.remove(&key);
                self.node.remove_m2pa(key);
            }
        }
    }
}
