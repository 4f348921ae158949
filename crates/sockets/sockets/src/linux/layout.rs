//! Structs in Linux's memory layout, read and written field by field.

use crate::errno::Errno;

/// Type of a field.
pub trait Field: Sized {
    /// Size in bytes.
    const SIZE: usize;

    /// Reads the field from exactly [`Self::SIZE`] bytes.
    ///
    /// # Errors
    /// `EINVAL` or `EAFNOSUPPORT` for a value that is not valid.
    fn read(bytes: &[u8]) -> Result<Self, Errno>;

    /// Writes the field to exactly [`Self::SIZE`] bytes.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(impl Field for $ty {
            const SIZE: usize = size_of::<$ty>();

            fn read(bytes: &[u8]) -> Result<Self, Errno> {
                let bytes = bytes.try_into().map_err(|_| Errno::EINVAL)?;
                Ok(<$ty>::from_ne_bytes(bytes))
            }

            fn write(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

integers!(u8, u16, u32, u64, i32, i64);

/// Struct with a fixed layout.
pub trait Layout: Sized {
    /// Name of the C type.
    const C_NAME: &'static str;
    /// Size in bytes, without a flexible array at its end.
    const SIZE: usize;
    /// Names, offsets and sizes of the fields.
    const FIELDS: &'static [(&'static str, usize, usize)];

    /// Reads the struct from the beginning of `bytes`.
    ///
    /// # Errors
    /// `EINVAL` if there are fewer bytes than [`Self::SIZE`]; errors of the fields.
    fn read(bytes: &[u8]) -> Result<Self, Errno>;

    /// Returns the struct as bytes; padding is zero.
    fn encode(&self) -> Vec<u8>;

    /// Reads the struct from bytes of its size.
    ///
    /// # Errors
    /// `EINVAL` for another number of bytes; errors of the fields.
    fn decode(bytes: &[u8]) -> Result<Self, Errno> {
        if bytes.len() != Self::SIZE {
            return Err(Errno::EINVAL);
        }
        Self::read(bytes)
    }
}

macro_rules! layouts {
    ($(
        $(#[$meta:meta])*
        $name:ident = $c_name:literal, $size:literal {
            $($field:ident: $ty:ty = $c_field:literal @ $offset:literal;)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
            pub struct $name {
                $(#[doc = concat!("`", $c_field, "`")] pub $field: $ty,)*
            }

            $(const _: () = assert!($offset + <$ty as Field>::SIZE <= $size);)*

            impl Layout for $name {
                const C_NAME: &'static str = $c_name;
                const SIZE: usize = $size;
                const FIELDS: &'static [(&'static str, usize, usize)] =
                    &[$(($c_field, $offset, <$ty as Field>::SIZE),)*];

                fn read(bytes: &[u8]) -> Result<Self, Errno> {
                    let bytes = bytes.get(..$size).ok_or(Errno::EINVAL)?;
                    Ok(Self {
                        $($field: <$ty as Field>::read(&bytes[$offset..$offset + <$ty as Field>::SIZE])?,)*
                    })
                }

                fn encode(&self) -> Vec<u8> {
                    let mut bytes = vec![0; $size];
                    $(self.$field.write(&mut bytes[$offset..$offset + <$ty as Field>::SIZE]);)*
                    bytes
                }
            }
        )*

        /// Names, sizes and fields of all structs.
        pub const LAYOUTS: &[LayoutEntry] = &[$(($name::C_NAME, $name::SIZE, $name::FIELDS),)*];
    };
}

pub(super) use layouts;
