//! Configurations: the parameters of the library by their names.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use carrick::dtls::DtlsConfig;
use carrick::{AssociationConfig, Preset, Transport};
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::certificate::{Certificate, trust};
use crate::error;

/// Declares the parameters of an endpoint that have no argument of their own; their defaults are the library's.
macro_rules! endpoint_parameters {
    ($($name:ident: $kind:ty,)*) => {
        #[derive(Deserialize, Serialize)]
        struct EndpointParameters { $($name: $kind,)* }

        impl EndpointParameters {
            fn of(config: &carrick::Config) -> Self {
                Self { $($name: config.$name,)* }
            }

            fn apply(self, config: &mut carrick::Config) {
                $(config.$name = self.$name;)*
            }
        }
    };
}

endpoint_parameters! {
    accept: bool,
    auto_addresses: bool,
    backlog: usize,
    linger: Duration,
    max_associations: usize,
    max_associations_per_source: Option<usize>,
    multipath: bool,
    notifications: usize,
    receive_memory: usize,
    receive_queue: usize,
    receive_queue_messages: usize,
    send_queue: usize,
    shards: usize,
    socket_buffer: usize,
    unread_memory: usize,
}

/// Arguments of Python.
#[derive(Deserialize)]
struct Given {
    addresses: Vec<IpAddr>,
    port: u16,
    udp_port: u16,
    transport: TransportName,
    daemon: Option<PathBuf>,
    preset: String,
    trusted: Option<Vec<String>>,
    parameters: Map<String, Value>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TransportName {
    Udp,
    Raw,
    Both,
}

/// Configuration of an endpoint.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick._core")]
pub(crate) struct Config {
    pub(crate) config: carrick::Config,
}

#[pymethods]
impl Config {
    /// Reads a configuration in JSON, with the certificate for DTLS.
    #[new]
    fn new(json: &str, certificate: Option<&Certificate>) -> PyResult<Self> {
        let given: Given = parse(json)?;
        let port = given.udp_port;
        let mut config = carrick::Config::udp(given.addresses)
            .port(given.port)
            .transport(match given.transport {
                TransportName::Udp => Transport::Udp { port },
                TransportName::Raw => Transport::Raw,
                TransportName::Both => Transport::Both { port },
            });
        #[cfg(target_os = "linux")]
        {
            config.daemon = given.daemon;
        }
        #[cfg(not(target_os = "linux"))]
        if given.daemon.is_some() {
            return Err(error::config("configuration: daemon: only Linux has it"));
        }
        let preset = given.preset.parse::<Preset>();
        let preset =
            preset.map_err(|why| error::config(&format!("preset: {:?}: {why}", given.preset)))?;
        config.association = preset.config();
        config.dtls = match (certificate, &given.trusted) {
            (None, None) => None,
            (Some(certificate), Some(trusted)) => {
                Some(DtlsConfig::new(certificate.own.clone(), trust(trusted)?))
            }
            _ => {
                let why = "DTLS needs both certificate and trusted: the fingerprints of peers, or \"anyone\"";
                return Err(error::config(&format!("configuration: {why}")));
            }
        };
        let mut tree = Tree::of(&config)?;
        for (name, value) in &given.parameters {
            tree.set(name, value)?;
        }
        tree.apply(&mut config)?;
        let valid = config
            .association
            .validate()
            .map_err(carrick::ConfigError::from);
        valid.map_err(|why| error::config(&why.to_string()))?;
        Ok(Self { config })
    }

    /// Returns all parameters with their values, in JSON.
    fn parameters(&self) -> PyResult<String> {
        let tree = Tree::of(&self.config)?;
        let groups = tree.groups.into_iter().flat_map(|(_, group)| group);
        Ok(Value::Object(groups.collect()).to_string())
    }
}

fn parse<T: serde::de::DeserializeOwned>(json: &str) -> PyResult<T> {
    let mut input = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut input).map_err(|why| {
        // The place in the text that this package has written does not help its user.
        let text = why.inner().to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        error::config(&format!("configuration: {}: {text}", why.path()))
    })
}

/// Parameters by the groups of the library: names in the spelling of Python.
struct Tree {
    groups: Vec<(String, Map<String, Value>)>,
}

/// Name of the group of parameters that associations do not have.
const ENDPOINT: &str = "endpoint";

/// Name of the group of those that are in no group of the library.
const ASSOCIATION: &str = "association";

impl Tree {
    fn of(config: &carrick::Config) -> PyResult<Self> {
        let failed = |why: serde_json::Error| error::config(&format!("configuration: {why}"));
        let association = serde_json::to_value(&config.association).map_err(failed)?;
        let endpoint = serde_json::to_value(EndpointParameters::of(config)).map_err(failed)?;
        let mut groups = Vec::new();
        let mut single = Map::new();
        if let Value::Object(association) = spelled(association, "-", "_") {
            for (name, value) in association {
                match value {
                    Value::Object(group) => groups.push((name, group)),
                    value => drop(single.insert(name, value)),
                }
            }
        }
        groups.push((ASSOCIATION.into(), single));
        if let Value::Object(endpoint) = endpoint {
            groups.push((ENDPOINT.into(), endpoint));
        }
        Ok(Self { groups })
    }

    /// Sets a parameter. A number for a time is one of seconds.
    fn set(&mut self, name: &str, value: &Value) -> PyResult<()> {
        let known = |(_, group): &&mut (String, Map<String, Value>)| group.contains_key(name);
        let Some((group, values)) = self.groups.iter_mut().find(known) else {
            return Err(error::config(&format!(
                "configuration: {name}: there is no such parameter"
            )));
        };
        let mut candidates = vec![value.clone()];
        if let Some(seconds) = value.as_f64() {
            candidates.push(format!("{seconds}s").into());
            if let Ok(time) = Duration::try_from_secs_f64(seconds) {
                candidates.extend(serde_json::to_value(time));
            }
        }
        let mut refused = None;
        for candidate in candidates {
            let mut changed = values.clone();
            changed.insert(name.to_owned(), candidate);
            match check(group, &changed) {
                Ok(()) => {
                    *values = changed;
                    return Ok(());
                }
                Err(why) => drop(refused.get_or_insert(why)),
            }
        }
        let why = refused.map(|why| why.to_string()).unwrap_or_default();
        Err(error::config(&format!("configuration: {name}: {why}")))
    }

    fn apply(self, config: &mut carrick::Config) -> PyResult<()> {
        let failed = |why: serde_json::Error| error::config(&format!("configuration: {why}"));
        let mut association = Map::new();
        for (group, values) in self.groups {
            if group == ENDPOINT {
                let endpoint: EndpointParameters =
                    serde_json::from_value(Value::Object(values)).map_err(failed)?;
                endpoint.apply(config);
            } else {
                association.extend(grouped(&group, values));
            }
        }
        let association = spelled(Value::Object(association), "_", "-");
        let mut parsed: AssociationConfig = serde_json::from_value(association).map_err(failed)?;
        // JSON has no algorithms.
        parsed.research = config.association.research.clone();
        config.association = parsed;
        Ok(())
    }
}

/// Returns a group as a part of an `AssociationConfig`.
fn grouped(group: &str, values: Map<String, Value>) -> Map<String, Value> {
    if group == ASSOCIATION {
        return values;
    }
    let entry = (group.to_owned(), Value::Object(values));
    std::iter::once(entry).collect()
}

/// Checks the types of a group.
fn check(group: &str, values: &Map<String, Value>) -> serde_json::Result<()> {
    if group == ENDPOINT {
        return EndpointParameters::deserialize(Value::Object(values.clone())).map(drop);
    }
    let part = Value::Object(grouped(group, values.clone()));
    AssociationConfig::deserialize(spelled(part, "_", "-")).map(drop)
}

/// Replaces a character in all names.
fn spelled(value: Value, from: &str, to: &str) -> Value {
    match value {
        Value::Object(entries) => {
            let entries = entries.into_iter();
            let entries =
                entries.map(|(name, value)| (name.replace(from, to), spelled(value, from, to)));
            Value::Object(entries.collect())
        }
        value => value,
    }
}
