//! Rows of the table of options: the functions that read and set one, and the rule of the length of its value.

use std::marker::PhantomData;
use std::net::SocketAddr;

use carrick_proto::{AssociationConfig, ParameterChanges};

use super::scope::{OptionView, ScopeRule};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::host::associations::AssociationRef;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::table::Socket;

/// Socket option.
pub(super) struct SocketOption {
    pub(super) level: i32,
    pub(super) name: i32,
    /// Fields that `getsockopt` reads.
    pub(super) input: OptionInput,
    pub(super) set: Set,
    pub(super) get: Get,
}

impl SocketOption {
    /// Returns the key of the stored value of an option that is reported.
    pub(super) fn key(&self) -> (u32, u32) {
        (self.level as u32, self.name as u32)
    }
}

type RawChanges = fn(&OptionView<'_>, &[u8]) -> Result<(i32, ParameterChanges), Errno>;
type RawGet = fn(&mut Sockets, SocketId, &[u8]) -> Result<Vec<u8>, Errno>;
/// Functions that the rows name, of options with a value of type `V`
pub(super) type SetFuture<V> = fn(&OptionView<'_>, &mut AssociationConfig, V) -> Result<(), Errno>;
pub(super) type Changes<V> = fn(&OptionView<'_>, V) -> Result<(i32, ParameterChanges), Errno>;
pub(super) type Operation<V, R> = fn(&mut Sockets, SocketId, V) -> Result<R, Errno>;
/// Function of a number of an association, or of future ones
pub(super) type Number = for<'a> fn(&OptionView<'a>, Option<AssociationRef<'a>>) -> u32;
/// Value that a type is parsed to
pub(super) type Parsed<'a, T> = <T as SetValue>::Value<'a>;

/// Change by `setsockopt`.
pub(super) enum Set {
    Refused(Errno),
    /// Settings of the socket
    Socket(fn(&mut Socket, &[u8]) -> Result<(), Errno>),
    /// The value that [`Get::Reported`] returns
    Reported(fn(i32) -> u32),
    /// Parameters of future associations
    Future(fn(&OptionView<'_>, &mut AssociationConfig, &[u8]) -> Result<(), Errno>),
    /// Parameters of the associations that the returned identifier means
    Changes(ScopeRule, RawChanges),
    /// Anything else
    Operation(fn(&mut Sockets, SocketId, &[u8]) -> Result<(), Errno>),
    /// The set-up of an association
    Association(fn(&mut Sockets, SocketId, &[u8]) -> Result<AssocId, Errno>),
}

/// Source of the value that `getsockopt` returns.
pub(super) enum Get {
    Refused(Errno),
    /// From the socket and its associations
    Value(fn(&OptionView<'_>, &[u8]) -> Result<Vec<u8>, Errno>),
    /// The value that was set, or this default
    Reported(u32),
    /// By a change
    Operation(RawGet),
}

/// Creates the rows of a module, by level: name, fields that `getsockopt` reads ([`OptionInput`]), type of the value
/// with the rule of its length ([`SetValue`]), and the functions of `setsockopt` and `getsockopt`.
macro_rules! options {
    ($([$level:ident] $(
        $name:ident, $input:ident $(($at:expr))?, $value:ty, [$($set:tt)*], [$($get:tt)*];
    )*)*) => {
        pub(super) const OPTIONS: &[table::SocketOption] = &[$($(
            table::SocketOption {
                level: $level,
                name: $name,
                input: OptionInput::$input $(($at))?,
                set: options!(@set $value; $($set)*),
                get: options!(@get $($get)*),
            },
        )*)*];
    };
    (@set $value:ty; none) => { Set::Refused(Errno::ENOPROTOOPT) };
    (@set $value:ty; refused $errno:ident) => { Set::Refused(Errno::$errno) };
    (@set $value:ty; reported $stored:expr) => { Set::Reported($stored) };
    (@set $value:ty; options $set:expr) => {
        Set::Socket(|socket, value| {
            let set: fn(&mut $crate::settings::Options, table::Parsed<'_, $value>) = $set;
            set(socket.options_mut(), <$value as table::SetValue>::parse(value)?);
            Ok(())
        })
    };
    (@set $value:ty; socket $set:expr) => {
        Set::Socket(|socket, value| $set(socket, <$value as table::SetValue>::parse(value)?))
    };
    (@set $value:ty; future $set:expr) => {
        Set::Future(|view, config, value| {
            let set: table::SetFuture<table::Parsed<'_, $value>> = $set;
            set(view, config, <$value as table::SetValue>::parse(value)?)
        })
    };
    (@set $value:ty; changes($scope:ident) $changes:expr) => {
        Set::Changes(ScopeRule::$scope, |view, value| {
            let changes: table::Changes<table::Parsed<'_, $value>> = $changes;
            changes(view, <$value as table::SetValue>::parse(value)?)
        })
    };
    (@set $value:ty; operation $set:expr) => {
        Set::Operation(|host, id, value| {
            let set: table::Operation<table::Parsed<'_, $value>, ()> = $set;
            set(host, id, <$value as table::SetValue>::parse(value)?)
        })
    };
    (@set $value:ty; set_up $set:expr) => {
        Set::Association(|host, id, value| {
            let set: table::Operation<table::Parsed<'_, $value>, _> = $set;
            set(host, id, <$value as table::SetValue>::parse(value)?)
        })
    };
    (@get none) => { Get::Refused(Errno::ENOPROTOOPT) };
    (@get refused $errno:ident) => { Get::Refused(Errno::$errno) };
    (@get reported $default:expr) => { Get::Reported($default) };
    (@get int $get:expr) => {
        Get::Value(|view, buffer| table::int(buffer, table::of_socket(view, $get)))
    };
    (@get cut $get:expr) => {
        Get::Value(|view, buffer| Ok(table::cut(buffer, table::of_socket(view, $get))))
    };
    (@get value $get:expr) => {
        Get::Value(|view, buffer| table::value(view, buffer, $get))
    };
    (@get number $get:expr) => {
        Get::Value(|view, buffer| table::number(view, buffer, $get))
    };
    (@get int_or_number $get:expr) => {
        Get::Value(|view, buffer| table::int_or_number(view, buffer, $get))
    };
    (@get bytes $get:expr) => { Get::Value($get) };
    (@get operation $get:expr) => { Get::Operation($get) };
}
pub(super) use options;

/// Type of a value for `setsockopt`, with the rule of its length.
pub(super) trait SetValue {
    type Value<'a>;

    fn parse(value: &[u8]) -> Result<Self::Value<'_>, Errno>;
}

/// Struct of exactly its size
impl<T: Layout> SetValue for T {
    type Value<'a> = T;

    fn parse(value: &[u8]) -> Result<T, Errno> {
        <T as Layout>::decode(value)
    }
}

/// `int`; longer values are allowed, as in Linux.
impl SetValue for i32 {
    type Value<'a> = i32;

    fn parse(value: &[u8]) -> Result<i32, Errno> {
        <i32 as Field>::read(value.get(..4).ok_or(Errno::EINVAL)?)
    }
}

/// `int` as a boolean
impl SetValue for bool {
    type Value<'a> = bool;

    fn parse(value: &[u8]) -> Result<bool, Errno> {
        Ok(i32::parse(value)? != 0)
    }
}

/// Value of exactly four bytes
pub(super) struct Exactly4<T>(PhantomData<T>);

impl<T: SetValue> SetValue for Exactly4<T> {
    type Value<'a> = T::Value<'a>;

    fn parse(value: &[u8]) -> Result<T::Value<'_>, Errno> {
        if value.len() != 4 {
            return Err(Errno::EINVAL);
        }
        T::parse(value)
    }
}

/// Struct that more bytes may follow
pub(super) struct AtLeast<T>(PhantomData<T>);

impl<T: Layout> SetValue for AtLeast<T> {
    type Value<'a> = T;

    fn parse(value: &[u8]) -> Result<T, Errno> {
        T::read(value)
    }
}

/// `int`, or an association identifier with a value. The `int` means future associations, or the only one.
pub(super) struct IntOrValue;

impl SetValue for IntOrValue {
    type Value<'a> = AssocValue;

    fn parse(value: &[u8]) -> Result<AssocValue, Errno> {
        match value.len() {
            4 => Ok(AssocValue {
                assoc_id: SCTP_FUTURE_ASSOC,
                value: i32::parse(value)? as u32,
            }),
            _ => Layout::decode(value),
        }
    }
}

/// Packed addresses
pub(super) struct Addresses;

impl SetValue for Addresses {
    type Value<'a> = Vec<SocketAddr>;

    fn parse(value: &[u8]) -> Result<Vec<SocketAddr>, Errno> {
        read_addresses(value)
    }
}

/// Bytes whose length the functions of the option check
pub(super) struct Raw;

impl SetValue for Raw {
    type Value<'a> = &'a [u8];

    fn parse(value: &[u8]) -> Result<&[u8], Errno> {
        Ok(value)
    }
}

pub(super) fn of_socket<T>(view: &OptionView<'_>, get: impl FnOnce(&Socket) -> T) -> T {
    get(view.socket)
}

/// Returns a struct for a buffer from which its identifiers are read.
pub(super) fn value<T: Layout>(
    view: &OptionView<'_>,
    buffer: &[u8],
    get: impl FnOnce(&OptionView<'_>, &mut T) -> Result<(), Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut value = T::read(buffer)?;
    get(view, &mut value)?;
    Ok(value.encode())
}

/// Returns a number with the identifier of its association.
pub(super) fn number(view: &OptionView<'_>, buffer: &[u8], get: Number) -> Result<Vec<u8>, Errno> {
    value(view, buffer, |view, asked: &mut AssocValue| {
        asked.value = get(view, view.source(asked.assoc_id)?);
        Ok(())
    })
}

/// Returns a number as [`number`] does if the buffer has room for the identifier, else an `int`.
pub(super) fn int_or_number(
    view: &OptionView<'_>,
    buffer: &[u8],
    get: Number,
) -> Result<Vec<u8>, Errno> {
    if buffer.len() >= AssocValue::SIZE {
        return number(view, buffer, get);
    }
    let asked = IntOrValue::parse(buffer)?;
    int(buffer, get(view, view.source(asked.assoc_id)?) as i32)
}

/// Returns an `int` for a buffer that holds it.
pub(super) fn int(buffer: &[u8], value: impl Into<i32>) -> Result<Vec<u8>, Errno> {
    fitting(buffer, value.into().to_ne_bytes().to_vec())
}

/// Returns bytes for a buffer that holds them.
pub(super) fn fitting(buffer: &[u8], value: Vec<u8>) -> Result<Vec<u8>, Errno> {
    if value.len() > buffer.len() {
        return Err(Errno::EINVAL);
    }
    Ok(value)
}

/// Returns as much of a value as a buffer holds, as Linux does on the levels of sockets and of IP.
pub(super) fn cut(buffer: &[u8], value: impl IntoBytes) -> Vec<u8> {
    let mut value = value.into_bytes();
    value.truncate(buffer.len());
    value
}

/// Value of the level of sockets
pub(super) trait IntoBytes {
    fn into_bytes(self) -> Vec<u8>;
}

impl<T: Layout> IntoBytes for T {
    fn into_bytes(self) -> Vec<u8> {
        self.encode()
    }
}

impl IntoBytes for i32 {
    fn into_bytes(self) -> Vec<u8> {
        self.to_ne_bytes().to_vec()
    }
}
