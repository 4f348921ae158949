//! Extensions of SCTP that sockets offer to peers until a program changes it, as Linux has them in
//! `net.sctp`.

use carrick::AssociationConfig;
use clap::{Args, ValueEnum};
use serde::Deserialize;

/// Extension of SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extension {
    /// Authentication of chunks (RFC 4895), which DTLS over SCTP needs (RFC 6083)
    Authentication,
    /// Dynamic addresses (RFC 5061); needs authentication, or the next one
    DynamicAddresses,
    /// Dynamic addresses also without authentication: an attacker who guesses the verification tag can
    /// redirect an association (RFC 5061, section 6)
    DynamicAddressesWithoutAuthentication,
    /// Stream reconfiguration (RFC 6525)
    StreamReconfiguration,
    /// Partial reliability (RFC 3758)
    PartialReliability,
    /// User message interleaving (RFC 8260)
    Interleaving,
    /// Explicit congestion notification (RFC 4960, appendix A)
    Ecn,
}

impl Extension {
    fn set(self, config: &mut AssociationConfig, on: bool) {
        let extensions = &mut config.extensions;
        match self {
            Self::Authentication => extensions.authentication = on,
            Self::DynamicAddresses => extensions.dynamic_addresses = on,
            Self::DynamicAddressesWithoutAuthentication => {
                config.security.dynamic_addresses_without_authentication = on;
            }
            Self::StreamReconfiguration => extensions.reconfiguration = on,
            Self::PartialReliability => {
                extensions.partial_reliability = on;
                extensions.interleaved_partial_reliability = on;
            }
            Self::Interleaving => extensions.interleaving = on,
            Self::Ecn => extensions.ecn = on,
        }
    }
}

/// Options of the command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ProtocolArguments {
    /// Offer an extension of SCTP to peers unless a program disables it; may be given several times.
    #[arg(long, value_name = "EXTENSION", value_enum)]
    pub(super) enable: Vec<Extension>,
    /// Do not offer an extension of SCTP unless a program enables it; may be given several times.
    #[arg(long, value_name = "EXTENSION", value_enum)]
    pub(super) disable: Vec<Extension>,
}

impl ProtocolArguments {
    pub(crate) fn apply(&self, config: &mut AssociationConfig) {
        let on = self.enable.iter().map(|extension| (*extension, true));
        let off = self.disable.iter().map(|extension| (*extension, false));
        on.chain(off)
            .for_each(|(extension, on)| extension.set(config, on));
    }
}

/// Section of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct ProtocolSettings {
    authentication: Option<bool>,
    dynamic_addresses: Option<bool>,
    dynamic_addresses_without_authentication: Option<bool>,
    stream_reconfiguration: Option<bool>,
    partial_reliability: Option<bool>,
    interleaving: Option<bool>,
    ecn: Option<bool>,
}

impl ProtocolSettings {
    /// Sets the extensions that are given.
    pub(super) fn apply(&self, config: &mut AssociationConfig) {
        let given = [
            (Extension::Authentication, self.authentication),
            (Extension::DynamicAddresses, self.dynamic_addresses),
            (
                Extension::DynamicAddressesWithoutAuthentication,
                self.dynamic_addresses_without_authentication,
            ),
            (
                Extension::StreamReconfiguration,
                self.stream_reconfiguration,
            ),
            (Extension::PartialReliability, self.partial_reliability),
            (Extension::Interleaving, self.interleaving),
            (Extension::Ecn, self.ecn),
        ];
        for (extension, value) in given {
            if let Some(on) = value {
                extension.set(config, on);
            }
        }
    }
}

/// Checks that an enabled extension can be offered.
///
/// # Errors
/// Dynamic addresses are enabled, but nothing authenticates them.
pub(super) fn validate(config: &AssociationConfig) -> Result<(), String> {
    let extensions = config.extensions;
    let allowed =
        extensions.authentication || config.security.dynamic_addresses_without_authentication;
    if extensions.dynamic_addresses && !allowed {
        return Err(
            "dynamic-addresses needs authentication (RFC 5061, section 4.1.1): enable authentication, or \
             dynamic-addresses-without-authentication"
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> ProtocolSettings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn each_key_sets_its_extension() {
        let keys = "authentication = true\ndynamic-addresses = true\n\
            dynamic-addresses-without-authentication = true\nstream-reconfiguration = false\n\
            partial-reliability = false\ninterleaving = true\necn = false\n";
        let default = AssociationConfig::default();
        let mut expected = default.extensions;
        expected.authentication = true;
        expected.dynamic_addresses = true;
        expected.reconfiguration = false;
        expected.partial_reliability = false;
        expected.interleaved_partial_reliability = false;
        expected.interleaving = true;
        expected.ecn = false;
        for (number, line) in keys.lines().enumerate() {
            let mut config = default.clone();
            settings(line).apply(&mut config);
            let security = config.security.dynamic_addresses_without_authentication;
            assert_eq!(security, number == 2, "{line}");
            assert_eq!(
                config.extensions == default.extensions,
                number == 2,
                "{line}"
            );
        }
        let mut config = default.clone();
        settings(keys).apply(&mut config);
        assert_eq!(config.extensions, expected);
        assert!(config.security.dynamic_addresses_without_authentication);
    }

    #[test]
    fn options_precede_keys() {
        let mut config = AssociationConfig::default();
        settings("authentication = false\necn = true\n").apply(&mut config);
        let arguments = ProtocolArguments {
            enable: vec![Extension::Authentication],
            disable: vec![Extension::Ecn],
        };
        arguments.apply(&mut config);
        assert!(config.extensions.authentication);
        assert!(!config.extensions.ecn);
    }

    /// RFC 5061, section 4.1.1
    #[test]
    fn dynamic_addresses_need_authentication() {
        let checked = |text: &str| {
            let mut config = AssociationConfig::default();
            settings(text).apply(&mut config);
            validate(&config)
        };
        let error = checked("dynamic-addresses = true").unwrap_err();
        assert!(error.contains("enable authentication"), "{error}");
        assert_eq!(
            checked("dynamic-addresses = true\nauthentication = true"),
            Ok(())
        );
        let unsafe_way =
            "dynamic-addresses = true\ndynamic-addresses-without-authentication = true";
        assert_eq!(checked(unsafe_way), Ok(()));
    }
}
