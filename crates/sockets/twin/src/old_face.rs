fn usage(sockets: &api::Sockets) -> [usize; 4] {
    [
        sockets.socket_count(),
        sockets.association_count(),
        sockets.port_count(),
        sockets.receive_memory(),
    ]
}

fn enable_reports(sockets: &mut api::Sockets) {
    sockets.report_events();
}

fn next_report(sockets: &mut api::Sockets) -> Option<api::AssociationReport> {
    sockets.poll_report()
}

fn take_dropped_reports(sockets: &mut api::Sockets) -> u64 {
    sockets.take_dropped_reports()
}
