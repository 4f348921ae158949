//! Combined throughput of several paths.

use std::sync::Arc;

use carrick_lab::parallel;
use carrick_proto::AssociationConfig;
use carrick_proto::cc::{Algorithm, CmtRpV1, CmtRpV2, Lia, Olia, Rfc9260};
use carrick_proto::research::Policies;

use super::support::{Path, Transfer, TransferOutcome, concurrent};

type Recovery = (&'static str, fn() -> Policies);

const RECOVERIES: [Recovery; 2] = [
    ("RFC 9260", Policies::default),
    ("modern", Policies::modern),
];

fn measure(policies: Policies, paths: &[Path]) -> TransferOutcome {
    Transfer::new(policies, paths).measure(5, 35)
}

#[test]
fn two_equal_paths_nearly_double_the_throughput() {
    for (name, policies) in RECOVERIES {
        let one = measure(policies(), &[Path::new(10, 20)]);
        let two = measure(concurrent(policies()), &[Path::new(10, 20); 2]);
        let ratio = two.mbits / one.mbits;
        println!(
            "{name}: {:.2} and {:.2} Mbit/s, {ratio:.2}",
            one.mbits, two.mbits
        );
        assert!(ratio >= 1.9, "{name}: {two:?}");
    }
}

#[test]
fn coupled_windows_use_disjoint_paths() {
    let coupled: [Arc<dyn Algorithm>; 5] = [
        Arc::new(Rfc9260),
        Arc::new(CmtRpV1),
        Arc::new(CmtRpV2),
        Arc::new(Lia),
        Arc::new(Olia),
    ];
    println!("| congestion control | two paths of 10 Mbit/s | 20 and 80 ms | 1 % lost on one |");
    println!("|---|---|---|---|");
    for congestion in coupled {
        let carried = |paths: [Path; 2]| {
            let policies = Policies {
                congestion: congestion.clone(),
                ..concurrent(Policies::modern())
            };
            measure(policies, &paths).mbits
        };
        let good = Path::new(10, 20);
        let mbits = [Path::new(10, 20), Path::new(10, 80), good.lossy(0.01)]
            .map(|other| carried([good, other]));
        println!(
            "| {} | {:.2} | {:.2} | {:.2} |",
            congestion.name(),
            mbits[0],
            mbits[1],
            mbits[2]
        );
        assert!(
            mbits.iter().all(|m| *m > 9.5),
            "no less than one path: {mbits:?}"
        );
        assert!(mbits[0] > 17.0, "{}: {mbits:?}", congestion.name());
    }
}

#[test]
fn automatic_buffers_follow_all_paths() {
    for (paths, least) in [
        ([Path::new(100, 10), Path::new(100, 10)], 190.0),
        ([Path::new(100, 10), Path::new(10, 10)], 90.0),
        ([Path::new(50, 10), Path::new(50, 80)], 85.0),
    ] {
        let mut transfer = Transfer::new(concurrent(Policies::modern()), &paths);
        transfer.config = AssociationConfig::modern()
            .with(|c| c.research.policies = transfer.config.research.policies);
        let sum: u64 = paths.iter().map(|p| p.mbits).sum();
        let outcome = transfer.measure(5, 15);
        println!("{:.1} of {sum} Mbit/s", outcome.mbits);
        assert!(outcome.mbits > least, "{outcome:?}");
    }
}

#[test]
fn unequal_and_lossy_paths_are_used_together() {
    let pairs = [
        ("10 Mbit/s, 20 ms", Path::new(10, 20), Path::new(10, 20)),
        (
            "10 Mbit/s, 20 and 100 ms",
            Path::new(10, 20),
            Path::new(10, 100),
        ),
        (
            "10 and 2 Mbit/s, 20 ms",
            Path::new(10, 20),
            Path::new(2, 20),
        ),
        (
            "10 Mbit/s, 20 ms, 0.1 % lost",
            Path::new(10, 20).lossy(0.001),
            Path::new(10, 20).lossy(0.001),
        ),
        (
            "10 Mbit/s, 20 ms, 1 % lost",
            Path::new(10, 20).lossy(0.01),
            Path::new(10, 20).lossy(0.01),
        ),
        (
            "10 Mbit/s, 20 and 100 ms, 0 and 1 % lost",
            Path::new(10, 20),
            Path::new(10, 100).lossy(0.01),
        ),
    ];
    println!("| paths | recovery | first alone | second alone | both | of the sum |");
    println!("|---|---|---|---|---|---|");
    let rows: Vec<_> = RECOVERIES
        .into_iter()
        .flat_map(|r| pairs.map(|p| (r, p)))
        .collect();
    let all = parallel::run(rows.len() * 3, |n| {
        let ((_, policies), (_, a, b)) = rows[n / 3];
        match n % 3 {
            0 => measure(policies(), &[a]),
            1 => measure(policies(), &[b]),
            _ => measure(concurrent(policies()), &[a, b]),
        }
        .mbits
    });
    for (((recovery, _), (name, _, _)), mbits) in rows.iter().zip(all.chunks(3)) {
        let share = mbits[2] / (mbits[0] + mbits[1]);
        println!(
            "| {name} | {recovery} | {:.2} | {:.2} | {:.2} | {:.0} % |",
            mbits[0],
            mbits[1],
            mbits[2],
            share * 100.0
        );
        assert!(mbits[2] > mbits[0].max(mbits[1]), "{name}, {recovery}");
        assert!(share > 0.8, "{name}, {recovery}: {share}");
    }
}
