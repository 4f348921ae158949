//! Rows of the table of options: how one is read and set, and the rule of the length of its value.

use std::marker::PhantomData;
use std::net::SocketAddr;

use carrick_proto::{AssociationConfig, ParameterChanges};

use super::scope::{OptionView, ScopeRule};
use crate::errno::Errno;
use crate::host::Sockets;
use crate::ids::{AssocId, SocketId};
use crate::linux::*;
use crate::settings::Options;
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

/// What `setsockopt` changes.
pub(super) enum Set {
    Refused(Errno),
    /// Settings of the socket
    Socket(fn(&mut Socket, &[u8]) -> Result<(), Errno>),
    /// The value that [`Get::Reported`] returns
    Reported(fn(i32) -> u32),
    /// Parameters of future associations
    Future(fn(&OptionView<'_>, &mut AssociationConfig, &[u8]) -> Result<(), Errno>),
    /// Parameters of the associations that the returned identifier means
    Changes(
        ScopeRule,
        fn(&OptionView<'_>, &[u8]) -> Result<(i32, ParameterChanges), Errno>,
    ),
    /// Anything else
    Operation(fn(&mut Sockets, SocketId, &[u8]) -> Result<(), Errno>),
    /// The set-up of an association
    SetUp(fn(&mut Sockets, SocketId, &[u8]) -> Result<AssocId, Errno>),
}

/// How `getsockopt` obtains a value.
pub(super) enum Get {
    Refused(Errno),
    /// From the socket and its associations
    Value(fn(&OptionView<'_>, &[u8]) -> Result<Vec<u8>, Errno>),
    /// The value that was set, or this default
    Reported(u32),
    /// By a change
    Operation(fn(&mut Sockets, SocketId, &[u8]) -> Result<Vec<u8>, Errno>),
}

/// Creates the rows of a module: level and name, fields that `getsockopt` reads ([`OptionInput`]), type of the value
/// with the rule of its length ([`SetValue`], [`GetValue`]), and the functions of `setsockopt` and `getsockopt`.
macro_rules! options {
    ($($level:ident $name:ident, $input:ident $(($at:expr))?, $value:ty, [$($set:tt)*], [$($get:tt)*];)*) => {
        pub(super) const OPTIONS: &[$crate::host::options::table::SocketOption] = &[$(
            $crate::host::options::table::SocketOption {
                level: $level,
                name: $name,
                input: OptionInput::$input $(($at))?,
                set: options!(@set $value; $($set)*),
                get: options!(@get $value; $($get)*),
            },
        )*];
    };
    (@set $value:ty; none) => { Set::Refused(Errno::ENOPROTOOPT) };
    (@set $value:ty; refused $errno:ident) => { Set::Refused(Errno::$errno) };
    (@set $value:ty; reported $stored:expr) => { Set::Reported($stored) };
    (@set $value:ty; options $set:expr) => {
        Set::Socket(|socket, value| table::set_options::<$value>(socket, value, $set))
    };
    (@set $value:ty; socket $set:expr) => {
        Set::Socket(|socket, value| table::set_socket::<$value>(socket, value, $set))
    };
    (@set $value:ty; future $set:expr) => {
        Set::Future(|view, config, value| table::set_future::<$value>((view, config), value, $set))
    };
    (@set $value:ty; changes($scope:ident) $set:expr) => {
        Set::Changes(ScopeRule::$scope, |view, value| table::changes::<$value>(view, value, $set))
    };
    (@set $value:ty; operation $set:expr) => {
        Set::Operation(|sockets, id, value| table::operation::<$value, _>(sockets, id, value, $set))
    };
    (@set $value:ty; set_up $set:expr) => {
        Set::SetUp(|sockets, id, value| table::operation::<$value, _>(sockets, id, value, $set))
    };
    (@get $value:ty; none) => { Get::Refused(Errno::ENOPROTOOPT) };
    (@get $value:ty; refused $errno:ident) => { Get::Refused(Errno::$errno) };
    (@get $value:ty; reported $default:expr) => { Get::Reported($default) };
    (@get $value:ty; int $get:expr) => {
        Get::Value(|view, buffer| table::int(buffer, table::of_socket(view, $get)))
    };
    (@get $value:ty; cut $get:expr) => {
        Get::Value(|view, buffer| Ok(table::cut(buffer, table::of_socket(view, $get))))
    };
    (@get $value:ty; value $get:expr) => {
        Get::Value(|view, buffer| table::value::<$value>(view, buffer, $get))
    };
    (@get $value:ty; bytes $get:expr) => { Get::Value($get) };
    (@get $value:ty; operation $get:expr) => { Get::Operation($get) };
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

/// Type of a value that `getsockopt` reads from the buffer of the caller, and returns there.
pub(super) trait GetValue {
    type Value;

    fn read(buffer: &[u8]) -> Result<Self::Value, Errno>;

    fn encode(value: &Self::Value, buffer: &[u8]) -> Vec<u8>;
}

impl<T: Layout> GetValue for T {
    type Value = T;

    fn read(buffer: &[u8]) -> Result<T, Errno> {
        <T as Layout>::read(buffer)
    }

    fn encode(value: &T, _: &[u8]) -> Vec<u8> {
        <T as Layout>::encode(value)
    }
}

impl<T: Layout> GetValue for AtLeast<T> {
    type Value = T;

    fn read(buffer: &[u8]) -> Result<T, Errno> {
        T::read(buffer)
    }

    fn encode(value: &T, _: &[u8]) -> Vec<u8> {
        value.encode()
    }
}

/// The struct if the buffer has room for it, else the `int`
impl GetValue for IntOrValue {
    type Value = AssocValue;

    fn read(buffer: &[u8]) -> Result<AssocValue, Errno> {
        Self::parse(buffer.get(..AssocValue::SIZE).unwrap_or(buffer))
    }

    fn encode(value: &AssocValue, buffer: &[u8]) -> Vec<u8> {
        if buffer.len() < AssocValue::SIZE {
            value.value.to_ne_bytes().to_vec()
        } else {
            value.encode()
        }
    }
}

pub(super) fn set_options<T: SetValue>(
    socket: &mut Socket,
    value: &[u8],
    set: impl FnOnce(&mut Options, T::Value<'_>),
) -> Result<(), Errno> {
    set(&mut socket.options, T::parse(value)?);
    Ok(())
}

pub(super) fn set_socket<T: SetValue>(
    socket: &mut Socket,
    value: &[u8],
    set: impl FnOnce(&mut Socket, T::Value<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    set(socket, T::parse(value)?)
}

pub(super) fn set_future<T: SetValue>(
    (view, config): (&OptionView<'_>, &mut AssociationConfig),
    value: &[u8],
    set: impl FnOnce(&OptionView<'_>, &mut AssociationConfig, T::Value<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    set(view, config, T::parse(value)?)
}

pub(super) fn changes<T: SetValue>(
    view: &OptionView<'_>,
    value: &[u8],
    changes: impl FnOnce(&OptionView<'_>, T::Value<'_>) -> Result<(i32, ParameterChanges), Errno>,
) -> Result<(i32, ParameterChanges), Errno> {
    changes(view, T::parse(value)?)
}

pub(super) fn operation<T: SetValue, R>(
    sockets: &mut Sockets,
    id: SocketId,
    value: &[u8],
    operation: impl FnOnce(&mut Sockets, SocketId, T::Value<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    operation(sockets, id, T::parse(value)?)
}

pub(super) fn of_socket<T>(view: &OptionView<'_>, get: impl FnOnce(&Socket) -> T) -> T {
    get(view.socket)
}

pub(super) fn value<T: GetValue>(
    view: &OptionView<'_>,
    buffer: &[u8],
    get: impl FnOnce(&OptionView<'_>, &mut T::Value) -> Result<(), Errno>,
) -> Result<Vec<u8>, Errno> {
    let mut value = T::read(buffer)?;
    get(view, &mut value)?;
    Ok(T::encode(&value, buffer))
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
