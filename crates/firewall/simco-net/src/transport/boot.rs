//! Boot-time clock of the host, which includes suspend and is never set.

use carrick_simco::state::BootTime;

/// Returns the boot identifier.
#[cfg(target_os = "linux")]
pub(super) fn current() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    parse(&text)
}

/// Returns the time since this boot.
#[cfg(target_os = "linux")]
pub(super) fn time(boot: [u8; 16]) -> Option<BootTime> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok()?;
    let since = std::time::Duration::from(now);
    Some(BootTime { boot, since })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn current() -> Option<[u8; 16]> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn time(_: [u8; 16]) -> Option<BootTime> {
    None
}

/// Parses 32 hexadecimal digits in groups.
#[cfg(target_os = "linux")]
fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32).then(|| number.to_be_bytes())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn boot_identifier_is_parsed() {
        let digits = "00112233-4455-6677-8899-aabbccddeeff\n";
        let number = parse(digits).unwrap();
        assert_eq!((number[0], number[1], number[15]), (0x00, 0x11, 0xff));
        assert_eq!([parse(""), parse("12-34"), parse("x")], [None; 3]);
        let here = current().unwrap();
        let [first, second] = [(); 2].map(|()| time(here).unwrap());
        assert!(first.boot == here && first.since <= second.since);
    }
}
