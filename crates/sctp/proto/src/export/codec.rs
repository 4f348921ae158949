//! Encoding of state: [`ExportWriter`], [`ExportReader`] and the trait [`Portable`], with the types of the standard library.
//!
//! Integers of more than a byte are LEB128, signed ones in zigzag order. A list is its length and its elements;
//! maps and sets are in ascending order. Moments are stored as differences from the moment of the export, so that
//! they fit the clock of the importing program. A reader accepts exactly what a writer produces: a number has one
//! encoding, a truth value is 0 or 1, and no list is longer than the bytes that are left.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::any::Any;
use core::cmp::Reverse;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;

use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;

use super::{ExportError, ImportError, ImportParts, SharedValues};
use crate::time::Time;

/// State that can be exported and imported.
#[doc(hidden)]
pub trait Portable: Sized {
    /// Appends the state.
    fn write(&self, out: &mut ExportWriter);

    /// Reads what [`Self::write`] appended.
    ///
    /// # Errors
    /// [`ImportError`], if no writer can have produced the bytes.
    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError>;
}

/// Encoder of an export.
#[doc(hidden)]
pub struct ExportWriter {
    pub(super) bytes: Vec<u8>,
    now: Time,
    /// Values of the parts that have been written, for those behind them.
    pub(crate) shared: SharedValues,
    /// First part that can't be exported.
    pub(super) fault: Option<ExportError>,
}

/// Shows the length alone: the state contains secrets.
impl fmt::Debug for ExportWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExportWriter({} bytes)", self.bytes.len())
    }
}

/// Shows the length of the rest alone: the state contains secrets.
impl fmt::Debug for ExportReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExportReader({} bytes)", self.rest.len())
    }
}

impl ExportWriter {
    /// Creates an empty export of the state at `now`.
    pub fn new(now: Time) -> Self {
        Self {
            bytes: Vec::new(),
            now,
            shared: SharedValues::default(),
            fault: None,
        }
    }

    /// Returns the moment of the export.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Notes that a part can't be exported.
    pub fn fail(&mut self, fault: ExportError) {
        self.fault.get_or_insert(fault);
    }

    /// Appends bytes, without their number.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends bytes, preceded by their number.
    pub fn octets(&mut self, bytes: &[u8]) {
        bytes.len().write(self);
        self.raw(bytes);
    }

    fn number(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn list<'a, T: Portable + 'a>(&mut self, items: impl ExactSizeIterator<Item = &'a T>) {
        items.len().write(self);
        for item in items {
            item.write(self);
        }
    }
}

/// Decoder of an export.
#[doc(hidden)]
pub struct ExportReader<'a> {
    /// Version of the state that is read.
    pub(super) version: u16,
    rest: &'a [u8],
    now: Time,
    /// Values of the import and of the parts that have been read, for those behind them.
    pub(crate) shared: SharedValues,
}

impl<'a> ExportReader<'a> {
    /// Begins to read the state of this version that an export contains; `now` is the moment of the export by the clock of the
    /// importing program. `parts` are those that are code; `None` where the state has none.
    pub fn new(version: u16, bytes: &'a [u8], now: Time, parts: Option<&dyn ImportParts>) -> Self {
        let mut shared = SharedValues::default();
        if let Some(parts) = parts {
            parts.share(&mut shared);
        }
        Self {
            version,
            rest: bytes,
            now,
            shared,
        }
    }

    /// Returns the version of the state that is read.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns the moment of the export by the clock of the importing program.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the value of this type in the parameters of the association that is being read, such as the algorithm
    /// that continues its state.
    pub(crate) fn of_association<T: Any>(&self) -> Result<&T, ImportError> {
        let malformed = ImportError::Malformed("state of a path without its association");
        self.shared.get().ok_or(malformed)
    }

    /// Takes this number of bytes.
    ///
    /// # Errors
    /// [`ImportError::Malformed`]
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], ImportError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes bytes that are preceded by their number.
    ///
    /// # Errors
    /// [`ImportError::Malformed`]
    pub fn octets(&mut self) -> Result<&'a [u8], ImportError> {
        let len = usize::read(self)?;
        self.raw(len)
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// [`ImportError::Malformed`]
    pub fn finish(&self) -> Result<(), ImportError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ImportError::Malformed("bytes behind the end"))
        }
    }

    fn number(&mut self) -> Result<u128, ImportError> {
        let mut value = 0_u128;
        for shift in (0..128).step_by(7) {
            let byte = u8::read(self)?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ImportError::Malformed("number"))
    }

    /// Reads elements one by one: memory is only taken for elements that are there.
    fn list<T: Portable>(&mut self, mut each: impl FnMut(T)) -> Result<(), ImportError> {
        let len = usize::read(self)?;
        if len > self.rest.len() {
            return Err(TRUNCATED);
        }
        for _ in 0..len {
            each(T::read(self)?);
        }
        Ok(())
    }

    /// Reads elements in ascending order, each once.
    fn ascending<K: Ord, T: Portable>(
        &mut self,
        key: impl Fn(&T) -> &K,
    ) -> Result<Vec<T>, ImportError> {
        let mut all: Vec<T> = Vec::new();
        let mut is_ascending = true;
        self.list(|item: T| {
            is_ascending &= all.last().is_none_or(|last| key(last) < key(&item));
            all.push(item);
        })?;
        if is_ascending {
            Ok(all)
        } else {
            Err(ImportError::Malformed("order of a map or set"))
        }
    }
}

/// A number exceeds the range of its type.
const OUT_OF_RANGE: ImportError = ImportError::Malformed("range of a number");

/// The bytes end within a value.
const TRUNCATED: ImportError = ImportError::Malformed("truncated");

/// Implements [`Portable`] for a struct by its fields. A new field is an error of the compiler until it is listed: with
/// the version that has it first, under `since`, with its value in older exports. Fields under `rebuilt` are not
/// stored; `check` names a condition of the struct that was read.
#[doc(hidden)]
#[macro_export]
macro_rules! portable_struct {
    ($name:ident { $($field:ident),* $(,)? }
        $(since $version:literal { $($later:ident: $before:expr),* $(,)? })*
        $(rebuilt { $($rebuilt:ident: $value:expr),* $(,)? })? $(check $check:path)?) => {
        impl $crate::export::Portable for $name {
            fn write(&self, out: &mut $crate::export::ExportWriter) {
                let Self { $($field,)* $($($later,)*)* $($($rebuilt: _,)*)? } = self;
                $($crate::export::Portable::write($field, out);)*
                $($($crate::export::Portable::write($later, out);)*)*
            }

            fn read(
                input: &mut $crate::export::ExportReader<'_>,
            ) -> Result<Self, $crate::export::ImportError> {
                let read = Self {
                    $($field: $crate::export::Portable::read(input)?,)*
                    $($($later: if input.version() < $version {
                        $before
                    } else {
                        $crate::export::Portable::read(input)?
                    },)*)*
                    $($($rebuilt: $value,)*)?
                };
                $(let check: fn(&Self) -> bool = $check;
                if !check(&read) {
                    return Err($crate::export::ImportError::Malformed(stringify!($name)));
                })?
                Ok(read)
            }
        }
    };
}

/// Implements [`Portable`] for a tuple struct by its fields.
#[doc(hidden)]
#[macro_export]
macro_rules! portable_tuple {
    ($name:ident($($field:ident),*)) => {
        impl $crate::export::Portable for $name {
            fn write(&self, out: &mut $crate::export::ExportWriter) {
                let Self($($field),*) = self;
                $($crate::export::Portable::write($field, out);)*
            }

            fn read(
                input: &mut $crate::export::ExportReader<'_>,
            ) -> Result<Self, $crate::export::ImportError> {
                $(let $field = $crate::export::Portable::read(input)?;)*
                Ok(Self($($field),*))
            }
        }
    };
}

/// Implements [`Portable`] for an enum by its variants, each with the number that stands for it. A new variant is an
/// error of the compiler until it is listed.
#[doc(hidden)]
#[macro_export]
macro_rules! portable_enum {
    ($name:ident { $($tag:literal: $variant:ident
        $(($($item:ident),*))? $({ $($field:ident),* $(,)? })?),* $(,)? }) => {
        impl $crate::export::Portable for $name {
            fn write(&self, out: &mut $crate::export::ExportWriter) {
                match self {
                    $(Self::$variant $(($($item),*))? $({ $($field),* })? => {
                        out.raw(&[$tag]);
                        $($($crate::export::Portable::write($item, out);)*)?
                        $($($crate::export::Portable::write($field, out);)*)?
                    })*
                }
            }

            fn read(
                input: &mut $crate::export::ExportReader<'_>,
            ) -> Result<Self, $crate::export::ImportError> {
                Ok(match <u8 as $crate::export::Portable>::read(input)? {
                    $($tag => {
                        $($(let $item = $crate::export::Portable::read(input)?;)*)?
                        $($(let $field = $crate::export::Portable::read(input)?;)*)?
                        Self::$variant $(($($item),*))? $({ $($field),* })?
                    })*
                    _ => return Err($crate::export::ImportError::Malformed(stringify!($name))),
                })
            }
        }
    };
}

impl Portable for u8 {
    fn write(&self, out: &mut ExportWriter) {
        out.bytes.push(*self);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (first, rest) = input.rest.split_first().ok_or(TRUNCATED)?;
        input.rest = rest;
        Ok(*first)
    }
}

impl Portable for bool {
    fn write(&self, out: &mut ExportWriter) {
        u8::from(*self).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        match u8::read(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ImportError::Malformed("truth value")),
        }
    }
}

macro_rules! portable_unsigned {
    ($($name:ty),*) => {$(
        impl Portable for $name {
            fn write(&self, out: &mut ExportWriter) {
                out.number(u128::from(*self));
            }

            fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
                let number = input.number()?;
                number.try_into().map_err(|_| OUT_OF_RANGE)
            }
        }
    )*};
}

portable_unsigned!(u16, u32, u64);

impl Portable for usize {
    fn write(&self, out: &mut ExportWriter) {
        out.number(*self as u128);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let number = input.number()?;
        number.try_into().map_err(|_| OUT_OF_RANGE)
    }
}

impl Portable for u128 {
    fn write(&self, out: &mut ExportWriter) {
        out.number(*self);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        input.number()
    }
}

impl Portable for i128 {
    fn write(&self, out: &mut ExportWriter) {
        out.number((self << 1 ^ self >> 127) as u128);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let number = input.number()?;
        Ok((number >> 1) as i128 ^ -((number & 1) as i128))
    }
}

impl Portable for i32 {
    fn write(&self, out: &mut ExportWriter) {
        i128::from(*self).write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let number = i128::read(input)?;
        number.try_into().map_err(|_| OUT_OF_RANGE)
    }
}

/// Stands for the end of time, which is that of every clock: an unlimited timeout never expires.
const END: i128 = 1 << 64;

impl Portable for Time {
    fn write(&self, out: &mut ExportWriter) {
        let difference = i128::from(self.as_nanos()) - i128::from(out.now.as_nanos());
        let is_end = *self == Self::from_nanos(u64::MAX);
        let written = if is_end { END } else { difference };
        written.write(out);
    }

    /// A moment before the epoch of this clock becomes the epoch.
    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let difference = i128::read(input)?;
        if difference == END {
            return Ok(Self::from_nanos(u64::MAX));
        }
        let limit = i128::from(u64::MAX);
        if !(-limit..=limit).contains(&difference) {
            return Err(ImportError::Malformed("moment"));
        }
        let nanos = i128::from(input.now.as_nanos()) + difference;
        Ok(Self::from_nanos(nanos.clamp(0, limit) as u64))
    }
}

impl Portable for Duration {
    fn write(&self, out: &mut ExportWriter) {
        self.as_secs().write(out);
        self.subsec_nanos().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let (seconds, nanos) = Portable::read(input)?;
        if nanos < 1_000_000_000 {
            Ok(Self::new(seconds, nanos))
        } else {
            Err(ImportError::Malformed("duration"))
        }
    }
}

impl Portable for IpAddr {
    fn write(&self, out: &mut ExportWriter) {
        match self {
            Self::V4(address) => {
                out.raw(&[4]);
                out.raw(&address.octets());
            }
            Self::V6(address) => {
                out.raw(&[6]);
                out.raw(&address.octets());
            }
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        match u8::read(input)? {
            4 => Ok(Ipv4Addr::from_octets(Portable::read(input)?).into()),
            6 => Ok(Ipv6Addr::from_octets(Portable::read(input)?).into()),
            _ => Err(ImportError::Malformed("address family")),
        }
    }
}

/// Address and port; an address with a flow label or scope is none of SCTP.
impl Portable for SocketAddr {
    fn write(&self, out: &mut ExportWriter) {
        self.ip().write(out);
        self.port().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Ok(Self::new(Portable::read(input)?, Portable::read(input)?))
    }
}

impl Portable for ChaCha12Rng {
    fn write(&self, out: &mut ExportWriter) {
        self.get_seed().write(out);
        self.get_stream().write(out);
        self.get_word_pos().write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut generator = Self::from_seed(Portable::read(input)?);
        generator.set_stream(Portable::read(input)?);
        generator.set_word_pos(Portable::read(input)?);
        Ok(generator)
    }
}

/// Payload; it is copied, so that no import keeps the memory of the whole export.
impl Portable for Bytes {
    fn write(&self, out: &mut ExportWriter) {
        out.octets(self);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        input.octets().map(Self::copy_from_slice)
    }
}

impl<T: Portable> Portable for Option<T> {
    fn write(&self, out: &mut ExportWriter) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        if bool::read(input)? {
            T::read(input).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<T: Portable> Portable for Box<T> {
    fn write(&self, out: &mut ExportWriter) {
        T::write(self, out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        T::read(input).map(Self::new)
    }
}

impl<T: Portable> Portable for Reverse<T> {
    fn write(&self, out: &mut ExportWriter) {
        self.0.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        T::read(input).map(Self)
    }
}

impl<T: Portable> Portable for Range<T> {
    fn write(&self, out: &mut ExportWriter) {
        self.start.write(out);
        self.end.write(out);
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Ok(T::read(input)?..T::read(input)?)
    }
}

impl<T: Portable, const N: usize> Portable for [T; N] {
    fn write(&self, out: &mut ExportWriter) {
        for item in self {
            item.write(out);
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let items: Vec<T> = (0..N).map(|_| T::read(input)).collect::<Result<_, _>>()?;
        items.try_into().map_err(|_| TRUNCATED)
    }
}

macro_rules! portable_pairs {
    ($(($($item:ident),*)),*) => {$(
        impl<$($item: Portable),*> Portable for ($($item,)*) {
            #[allow(non_snake_case)]
            fn write(&self, out: &mut ExportWriter) {
                let ($($item,)*) = self;
                $($item.write(out);)*
            }

            fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
                Ok(($($item::read(input)?,)*))
            }
        }
    )*};
}

portable_pairs!((A, B), (A, B, C));

impl<T: Portable> Portable for Vec<T> {
    fn write(&self, out: &mut ExportWriter) {
        out.list(self.iter());
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let mut all = Self::new();
        input.list(|item| all.push(item))?;
        Ok(all)
    }
}

impl<T: Portable> Portable for Box<[T]> {
    fn write(&self, out: &mut ExportWriter) {
        out.list(self.iter());
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Vec::read(input).map(Vec::into_boxed_slice)
    }
}

impl<T: Portable> Portable for VecDeque<T> {
    fn write(&self, out: &mut ExportWriter) {
        out.list(self.iter());
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        Vec::read(input).map(Into::into)
    }
}

impl<K: Portable + Ord, V: Portable> Portable for BTreeMap<K, V> {
    fn write(&self, out: &mut ExportWriter) {
        self.len().write(out);
        for (key, value) in self {
            key.write(out);
            value.write(out);
        }
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let entries = input.ascending(|entry: &(K, V)| &entry.0)?;
        Ok(entries.into_iter().collect())
    }
}

impl<T: Portable + Ord> Portable for BTreeSet<T> {
    fn write(&self, out: &mut ExportWriter) {
        out.list(self.iter());
    }

    fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
        let items = input.ascending(|item: &T| item)?;
        Ok(items.into_iter().collect())
    }
}
