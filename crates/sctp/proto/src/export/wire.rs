//! Encoding of the types of `carrick-wire` that state contains.

use carrick_wire::{
    AsconfSerial, CauseCode, ChunkType, CorrelationId, DataFlags, Fragment, Fsn, HmacId,
    IDataHeader, Mid, NextTsns, ParameterType, Ppid, ReconfigResponse, ReconfigResult,
    ReconfigSerial, SharedKeyId, SkippedMessage, Ssn, StreamId, Tsn, VerificationTag,
};

use super::{ExportReader, ExportWriter, ImportError, Portable};

macro_rules! portable_serials {
    ($($name:ident),*) => {$(
        impl Portable for $name {
            fn write(&self, out: &mut ExportWriter) {
                self.value().write(out);
            }

            fn read(input: &mut ExportReader<'_>) -> Result<Self, ImportError> {
                Portable::read(input).map(Self::new)
            }
        }
    )*};
}

portable_serials!(AsconfSerial, Fsn, Mid, ReconfigSerial, Ssn, Tsn);

portable_tuple! { CauseCode(code) }
portable_tuple! { ChunkType(number) }
portable_tuple! { CorrelationId(id) }
portable_tuple! { HmacId(id) }
portable_tuple! { ParameterType(number) }
portable_tuple! { Ppid(ppid) }
portable_tuple! { ReconfigResult(result) }
portable_tuple! { SharedKeyId(id) }
portable_tuple! { StreamId(number) }
portable_tuple! { VerificationTag(tag) }
portable_struct! { DataFlags { immediate, unordered, beginning, ending } }
portable_enum! { Fragment { 0: First(ppid), 1: Later(fsn) } }
portable_struct! { IDataHeader { tsn, stream, mid, fragment, immediate, unordered, ending } }
portable_struct! { NextTsns { sender, receiver } }
portable_struct! { ReconfigResponse { response, result, next_tsns } }
portable_struct! { SkippedMessage { stream, unordered, mid } }
