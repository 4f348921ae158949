fn usage(sockets: &api::Sockets) -> [usize; 4] {
    let usage = sockets.usage();
    [
        usage.sockets,
        usage.associations,
        usage.ports,
        usage.receive_memory,
    ]
}

fn enable_reports(sockets: &mut api::Sockets) {
    sockets.reports().enable();
}

fn next_report(sockets: &mut api::Sockets) -> Option<api::AssociationReport> {
    sockets.reports().poll()
}

fn take_dropped_reports(sockets: &mut api::Sockets) -> u64 {
    sockets.reports().take_dropped()
}
