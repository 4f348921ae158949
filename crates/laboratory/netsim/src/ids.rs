//! Identifiers of the parts of a network: small integers, assigned in the order of creation.

/// Identifier of a host or a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// Identifier of an interface; unique in the network, not only within its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub(crate) u32);

/// Identifier of a link, which joins two interfaces in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u32);

/// One of the two directions of a link, as given to
/// [`NetworkBuilder::connect`](crate::NetworkBuilder::connect).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the interface named first to the one named second.
    Forward,
    /// From the interface named second to the one named first.
    Backward,
}

/// Identifier of one direction of one link: the index of its [`OneWayLink`](crate::link::OneWayLink).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HalfId(pub(crate) u32);

impl HalfId {
    pub(crate) fn new(link: LinkId, direction: Direction) -> Self {
        Self(link.0 * 2 + u32::from(direction == Direction::Backward))
    }

    pub(crate) fn link(self) -> LinkId {
        LinkId(self.0 / 2)
    }

    pub(crate) fn direction(self) -> Direction {
        if self.0.is_multiple_of(2) {
            Direction::Forward
        } else {
            Direction::Backward
        }
    }
}

macro_rules! index {
    ($($name:ident: $visibility:vis),*) => {$(
        impl $name {
            /// Returns the position in the order of creation, counted from 0.
            $visibility const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
index!(NodeId: pub, InterfaceId: pub, LinkId: pub, HalfId: pub(crate));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_name_their_link_and_direction() {
        for direction in [Direction::Forward, Direction::Backward] {
            let half = HalfId::new(LinkId(7), direction);
            assert_eq!((half.link(), half.direction()), (LinkId(7), direction));
        }
    }
}
