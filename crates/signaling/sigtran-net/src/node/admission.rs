//! Associations whose peers are not identified yet: how many are kept, and which one a new association displaces.
//!
//! One source displaces only its own associations until the total is reached, and then the source with most of them does.
//! Associations from addresses of configured ASPs are limited for each address, and not counted in the total.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use carrick_proto::SourceKey;

use crate::association::AssociationId;

/// Maximum number of associations without ASP Up from addresses that are not configured.
const MAX_UNIDENTIFIED: usize = 256;

/// Maximum number of associations without ASP Up from one source; a configured address with more ASPs has room for all.
const MAX_PER_SOURCE: usize = 32;

/// Source of associations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum PeerSource {
    /// Address of configured ASPs.
    Configured(IpAddr),
    /// IPv4 address or IPv6 /64 of which no ASP is configured.
    Other(SourceKey),
}

/// Associations of a source.
struct SourceAssociations {
    count: usize,
    oldest: AssociationId,
}

/// Returns the association that has to end before another one of a source is admitted: the oldest of the source if its
/// share is used up, else the oldest of the source with most associations if the total is reached. `asps` is the number of
/// ASPs with the address; `waiting` is in the order of age.
pub(super) fn displaced(
    source: PeerSource,
    asps: usize,
    waiting: impl Iterator<Item = (AssociationId, PeerSource)>,
) -> Option<AssociationId> {
    let mut sources: BTreeMap<PeerSource, SourceAssociations> = BTreeMap::new();
    for (oldest, source) in waiting {
        let first = SourceAssociations { count: 0, oldest };
        sources.entry(source).or_insert(first).count += 1;
    }
    let own = sources.get(&source);
    if let Some(own) = own.filter(|own| own.count >= asps.max(MAX_PER_SOURCE)) {
        return Some(own.oldest);
    }
    let PeerSource::Other(_) = source else {
        return None;
    };
    sources.retain(|source, _| matches!(source, PeerSource::Other(_)));
    let total: usize = sources.values().map(|of| of.count).sum();
    let largest = sources
        .values()
        .max_by_key(|of| (of.count, Reverse(of.oldest)));
    largest
        .filter(|_| total >= MAX_UNIDENTIFIED)
        .map(|of| of.oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(network: u8, host: u8) -> PeerSource {
        PeerSource::Other(SourceKey::of([10, 0, network, host].into()))
    }

    /// Admits an association for each source in turn; returns those that remain, by age.
    fn admit(
        asps: usize,
        sources: impl IntoIterator<Item = PeerSource>,
    ) -> Vec<(AssociationId, PeerSource)> {
        let mut waiting: Vec<(AssociationId, PeerSource)> = Vec::new();
        for (id, source) in (0..).zip(sources) {
            if let Some(displaced) = displaced(source, asps, waiting.iter().copied()) {
                waiting.retain(|(id, _)| *id != displaced);
            }
            waiting.push((AssociationId(id), source));
        }
        waiting
    }

    #[test]
    fn a_source_displaces_its_own_associations() {
        let honest = stranger(0, 1);
        let flood = std::iter::repeat_n(stranger(0, 2), 1000);
        let waiting = admit(1, std::iter::once(honest).chain(flood));
        assert_eq!(waiting.len(), 1 + MAX_PER_SOURCE);
        assert_eq!(waiting[0], (AssociationId(0), honest));
        let youngest = 1001 - MAX_PER_SOURCE as u64;
        assert_eq!(waiting[1].0, AssociationId(youngest));
    }

    #[test]
    fn the_largest_source_gives_way_to_others() {
        let honest = (0..20).map(|host| stranger(1, host));
        let floods = (0..20).flat_map(|host| std::iter::repeat_n(stranger(2, host), 100));
        let waiting = admit(1, honest.clone().chain(floods));
        assert_eq!(waiting.len(), MAX_UNIDENTIFIED);
        for source in honest {
            assert!(waiting.iter().any(|(_, of)| *of == source), "{source:?}");
        }
    }

    #[test]
    fn configured_addresses_have_their_own_share() {
        let strangers = (0..200).flat_map(|host| std::iter::repeat_n(stranger(0, host), 4));
        let address = |host| PeerSource::Configured([10, 1, 0, host].into());
        let flood = std::iter::repeat_n(address(1), 100);
        let waiting = admit(1, flood.chain(strangers).chain([address(2)]));
        let count = |of: PeerSource| waiting.iter().filter(|(_, source)| *source == of).count();
        assert_eq!(count(address(1)), MAX_PER_SOURCE);
        assert_eq!(count(address(2)), 1);
        assert_eq!(
            waiting.len(),
            MAX_UNIDENTIFIED + MAX_PER_SOURCE + 1,
            "strangers have the whole total"
        );
        // All ASPs of one host may set up their associations at once.
        let host = PeerSource::Configured([10, 1, 0, 3].into());
        assert_eq!(admit(100, std::iter::repeat_n(host, 200)).len(), 100);
    }
}
