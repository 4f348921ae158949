//! Arbitrary text, parsed as a packet script for each system and run: no panic and no hang, in bounded memory.
#![no_main]

use carrick_script::{Script, System};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for system in [System::Linux, System::FreeBsd] {
        if let Ok(script) = Script::parse_for(text, system) {
            let _ = script.run();
        }
    }
});
