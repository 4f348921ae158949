//! Configurations of associations in files (feature `serde`).
#![cfg(feature = "serde")]

use std::time::Duration;

use carrick::{AssociationConfig, Extensions, Preset, StreamScheduler};

fn read(text: &str) -> Result<AssociationConfig, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn values_of_a_file_replace_the_recommended_ones() {
    let text = r#"{
        "timers": {"rto-min": "250ms", "rto-max": "2.5s", "shutdown-guard": "1m", "no-progress-after": null},
        "paths": {"hb-interval": "5s", "path-max-retrans": 3, "dscp-v4": 46},
        "mtu": {"path-mtu-discovery": {"probe-timer": "2s"}},
        "streams": {"scheduler": "weighted-fair", "grants": {"change-streams": false}},
        "extensions": {"ecn": false, "interleaving": true},
        "adaptation-layer": 7
    }"#;
    let config = read(text).unwrap();
    assert_eq!(config.timers.rto_min, Duration::from_millis(250));
    assert_eq!(config.timers.rto_max, Duration::from_millis(2500));
    assert_eq!(config.timers.shutdown_guard, Some(Duration::from_secs(60)));
    assert_eq!(config.timers.no_progress_after, None);
    assert_eq!(config.paths.hb_interval, Duration::from_secs(5));
    assert_eq!(config.paths.path_max_retrans, 3);
    assert_eq!(config.paths.dscp_v4, 46);
    let discovery = config.mtu.path_mtu_discovery.unwrap();
    assert_eq!(discovery.probe_timer, Duration::from_secs(2));
    assert_eq!(config.streams.scheduler, StreamScheduler::WeightedFair);
    assert!(config.streams.grants.reset_streams && !config.streams.grants.change_streams);
    assert_eq!(config.adaptation_layer, Some(7));
    let recommended = AssociationConfig::default();
    let expected = Extensions {
        ecn: false,
        interleaving: true,
        ..recommended.extensions
    };
    assert_eq!(config.extensions, expected);
    assert_eq!(config.timers.rto_initial, recommended.timers.rto_initial);
    assert_eq!(config.validate(), Ok(()));
    assert_eq!(
        format!("{:?}", read("{}").unwrap()),
        format!("{recommended:?}")
    );
}

#[test]
fn presets_are_read_as_they_are_written() {
    for preset in Preset::ALL {
        let config = preset.config();
        let mut written = serde_json::to_value(&config).unwrap();
        // They have the names of statistics.
        let extensions = std::mem::take(&mut written["extensions"]);
        for (name, value) in extensions.as_object().unwrap() {
            written["extensions"][name.replace('_', "-")] = value.clone();
        }
        let mut again = read(&written.to_string()).unwrap();
        again.research = config.research.clone();
        assert_eq!(format!("{again:?}"), format!("{config:?}"), "{preset}");
    }
    let signaling = serde_json::to_value(Preset::Signaling.config()).unwrap();
    assert_eq!(signaling["timers"]["rto-min"], "150ms");
    assert_eq!(
        signaling["timers"]["shutdown-guard"],
        serde_json::Value::Null
    );
}

#[test]
fn unknown_keys_and_times_without_unit_are_errors() {
    for (text, part) in [
        (
            r#"{"timers": {"rto-minimum": "1s"}}"#,
            "unknown field `rto-minimum`, expected one of `rto-initial`",
        ),
        (
            r#"{"timers": {"rto-min": 250}}"#,
            "invalid type: integer `250`, expected a time in quotes with its unit",
        ),
        (
            r#"{"timers": {"rto-min": "250"}}"#,
            "invalid value: string \"250\", expected a time in quotes with its unit",
        ),
        (
            r#"{"streams": {"scheduler": "fair"}}"#,
            "unknown variant `fair`, expected one of `first-come`",
        ),
        (r#"{"research": {}}"#, "unknown field `research`"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(part), "{error}");
    }
}
