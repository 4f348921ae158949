//! Endpoints.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use carrick::{ConnectOptions, Incoming, Peer};
use pyo3::prelude::*;

use crate::association::{Association, json};
use crate::certificate::trust;
use crate::close::Report;
use crate::config::Config;
use crate::runtime::{self, Owned, lock};
use crate::{error, event_loop, message};

/// Associations that tasks were woken for and have not taken: at most one for each task.
type Accepted = Arc<Mutex<VecDeque<Incoming>>>;

/// An endpoint.
#[derive(Debug)]
#[pyclass(frozen, module = "carrick._core")]
pub(crate) struct Endpoint {
    handles: Owned<(carrick::Endpoint, Accepted)>,
    fragments: bool,
}

impl Endpoint {
    fn endpoint(&self) -> PyResult<carrick::Endpoint> {
        Ok(self.handles.get()?.0.clone())
    }
}

#[pymethods]
impl Endpoint {
    /// Opens an endpoint.
    #[new]
    fn new(py: Python<'_>, config: &Config) -> PyResult<Self> {
        let runtime = runtime::handle()?;
        let fragments = config.config.association.mtu.fragment;
        let config = config.config.clone();
        let endpoint = py.detach(|| {
            let _entered = runtime.enter();
            carrick::Endpoint::bind(config)
        });
        let endpoint = endpoint.map_err(|why| error::bind(&why))?;
        Ok(Self {
            handles: Owned::new((endpoint, Accepted::default())),
            fragments,
        })
    }

    /// SCTP port.
    #[getter]
    fn port(&self) -> PyResult<u16> {
        Ok(self.handles.get()?.0.port())
    }

    /// Local UDP port; `None` on plain IP.
    #[getter]
    fn udp_port(&self) -> PyResult<Option<u16>> {
        Ok(self.handles.get()?.0.encapsulation_port())
    }

    /// Sets up an association, with the parameters of `config` if it is given.
    fn connect<'py>(
        &self,
        py: Python<'py>,
        hosts: Vec<String>,
        port: u16,
        udp_port: Option<u16>,
        trusted: Option<Vec<String>>,
        config: Option<&Config>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let endpoint = self.endpoint()?;
        let association = config.map(|config| config.config.association.clone());
        let fragments = association
            .as_ref()
            .map_or(self.fragments, |own| own.mtu.fragment);
        let mut options = ConnectOptions::new();
        options.encapsulation_port = udp_port;
        options.association = association;
        options.trust = trusted.map(|trusted| trust(&trusted)).transpose()?;
        event_loop::awaitable(py, async move {
            let connected = endpoint.connect_with(Peer::new(hosts, port), options).await;
            let connected = connected.map_err(|why| error::connect(&why))?;
            let association = Association::new(connected, fragments);
            Python::attach(|py| Ok(association.into_pyobject(py)?.unbind()))
        })
    }

    /// Returns the next association that was set up by a peer, if one is there.
    fn try_accept(&self) -> PyResult<Option<Association>> {
        let next = lock(&self.handles.get()?.1).pop_front();
        Ok(next.and_then(|incoming| Association::new(incoming.accept(), self.fragments)))
    }

    /// Waits for an association that a peer sets up; false after the endpoint was closed.
    fn acceptable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let endpoint = self.endpoint()?;
        let accepted = Arc::clone(&self.handles.get()?.1);
        event_loop::awaitable(py, async move {
            let incoming = endpoint.accept().await;
            let is_there = incoming.is_some();
            lock(&accepted).extend(incoming);
            Python::attach(|py| Ok(is_there.into_pyobject(py)?.to_owned().into_any().unbind()))
        })
    }

    /// Waits until all associations have ended, at most for a number of seconds; returns the report.
    fn close<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let endpoint = self.endpoint()?;
        let limit = timeout
            .map(|seconds| message::time("timeout", seconds))
            .transpose()?;
        event_loop::awaitable(py, async move {
            let report = match limit {
                Some(limit) => endpoint.close_within(limit).await,
                None => endpoint.close().await,
            };
            Python::attach(|py| Ok(Py::new(py, Report::from(&report))?.into_any()))
        })
    }

    /// Counters, in JSON.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let endpoint = self.endpoint()?;
        event_loop::awaitable(py, async move {
            let stats = endpoint.stats().await;
            json(&stats.map_err(|why| error::operation(&why))?)
        })
    }

    /// Addresses that the endpoint is bound to, in JSON.
    fn local_addresses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let endpoint = self.endpoint()?;
        event_loop::awaitable(py, async move {
            let addresses = endpoint.local_addresses().await;
            json(&addresses.map_err(|why| error::operation(&why))?)
        })
    }

    /// Number of associations.
    fn associations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let endpoint = self.endpoint()?;
        event_loop::awaitable(py, async move {
            let count = endpoint.associations().await;
            let count = count.map_err(|why| error::operation(&why))?;
            Python::attach(|py| Ok(count.into_pyobject(py)?.into_any().unbind()))
        })
    }
}
