"""Configurations."""

from datetime import timedelta

import pytest

from carrick import Config, ConfigError

from support import linked, run


def test_every_parameter_takes_its_own_value() -> None:
    for preset in ["recommended", "signaling", "rfc9260"]:
        config = Config(preset=preset)
        values = config.parameters
        assert len(values) > 60
        for name, value in values.items():
            assert Config(preset=preset, **{name: value}).parameters == values, name
        assert config.changed(**values).parameters == values


def test_presets_are_those_of_the_library() -> None:
    recommended, signaling, plain = (Config(preset=p).parameters for p in ["recommended", "signaling", "rfc9260"])
    assert (recommended["rto_min"], signaling["rto_min"], signaling["hb_interval"]) == ("1s", "150ms", "2s")
    assert (recommended["potentially_failed_max_retrans"], plain["potentially_failed_max_retrans"]) == (0, None)
    assert (recommended["max_send_buffer"], plain["max_send_buffer"]) == (64 << 20, None)


def test_times_are_seconds_text_or_timedelta() -> None:
    for value in [0.25, "250ms", timedelta(milliseconds=250)]:
        assert Config(rto_min=value).parameters["rto_min"] == "250ms"
    assert Config(hb_interval=5).parameters["hb_interval"] == "5s"
    assert Config(shutdown_guard=7).parameters["shutdown_guard"] == "7s"
    assert Config(linger=timedelta(minutes=2)).parameters["linger"] == 120
    assert Config(linger=1.5).parameters["linger"] == 1.5


def test_groups_of_values_are_mappings() -> None:
    discovery = {"base_mtu": 1300, "probe_timer": "2s"}
    found = Config(path_mtu_discovery=discovery, scheduler="round-robin").parameters
    assert found["path_mtu_discovery"]["base_mtu"] == 1300
    assert found["path_mtu_discovery"]["max_probed_mtu"] == 9000
    assert found["scheduler"] == "round-robin"


def test_mistakes_are_named() -> None:
    for arguments, words in [
        ({"rto_mim": 1}, "rto_mim: there is no such parameter: did you mean rto_min"),
        ({"rto_min": "fast"}, 'rto_min: invalid value: string "fast", expected a time'),
        ({"path_max_retrans": -1}, "path_max_retrans: invalid value: integer `-1`"),
        ({"path_max_retrans": "many"}, 'path_max_retrans: invalid type: string "many"'),
        ({"rto_min": "70s"}, "rto_min"),
        ({"preset": "quick"}, '"quick": expected recommended, signaling or rfc9260'),
        ({"transport": "tcp"}, "transport: unknown variant `tcp`"),
        ({"addresses": "localhost"}, r"addresses\[0\]: invalid IP address"),
        ({"port": 70_000}, "port: invalid value: integer `70000`, expected u16$"),
        ({"rto_min": float("nan")}, "rto_min: nan is not a finite number"),
        ({"linger": float("inf")}, "linger: inf is not a finite number"),
    ]:
        with pytest.raises(ConfigError, match=words) as refused:
            Config(**arguments)
        assert isinstance(refused.value, ValueError)


def test_a_configuration_is_shown() -> None:
    shown = repr(Config("127.0.0.1", port=7, rto_min="1s"))
    assert shown.startswith("Config(addresses=['127.0.0.1'], port=7") and "rto_min='1s'" in shown


def test_parameters_are_in_force() -> None:
    async def main() -> None:
        async with linked(outbound_streams=3, max_inbound_streams=2, rto_initial=0.5) as pair:
            assert (pair.client.outbound_streams, pair.client.inbound_streams) == (2, 2)
            unmeasured = [path.rto for path in await pair.client.paths() if path.srtt is None]
            assert set(unmeasured) <= {0.5}
            other = await pair.client_endpoint.statistics()
            assert other["protocol"]

    run(main())


def test_an_association_may_have_its_own_parameters() -> None:
    async def main() -> None:
        from carrick import Endpoint
        from support import LOOPBACK

        async with Endpoint.bind(Config(LOOPBACK, udp_port=0)) as server:
            async with Endpoint.bind(Config(LOOPBACK, udp_port=0)) as client:
                association = await client.connect(
                    LOOPBACK, server.port, udp_port=server.udp_port, outbound_streams=77
                )
                assert association.outbound_streams == 77

    run(main())
