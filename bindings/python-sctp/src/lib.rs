//! Module `carrick._core`: SCTP endpoints and associations of crate `carrick` for asyncio.
//!
//! The module converts arguments, results and errors, and runs operations on event loops; the Python part of the package
//! has the interface.
#![forbid(unsafe_code)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments are converted from values of Python"
)]

mod association;
mod certificate;
mod close;
mod config;
mod endpoint;
mod error;
mod event;
mod event_loop;
mod message;
mod runtime;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<association::Association>()?;
    module.add_class::<certificate::Certificate>()?;
    module.add_class::<close::End>()?;
    module.add_class::<close::Reason>()?;
    module.add_class::<close::Report>()?;
    module.add_class::<config::Config>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<message::Message>()?;
    let py = module.py();
    let at_exit = wrap_pyfunction!(runtime::at_exit, module)?;
    py.import("atexit")?.call_method1("register", (at_exit,))?;
    let after_fork = wrap_pyfunction!(runtime::after_fork, module)?;
    let keywords = pyo3::types::PyDict::new(py);
    keywords.set_item("after_in_child", after_fork)?;
    py.import("os")?
        .call_method("register_at_fork", (), Some(&keywords))?;
    Ok(())
}
