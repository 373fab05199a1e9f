//! The XDP programs: compiled from `xdp/` by the build script, completed and loaded here.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;

use super::kernel_functions;
use super::system::{self, LoadOptions, Refusal};

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Our programs' names in the kernel start so.
pub(super) const NAME_PREFIX: &str = "sluice_";

/// `BPF_F_XDP_HAS_FRAGS`: packets may lie in several buffers.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// `BPF_F_XDP_DEV_BOUND_ONLY`: the program is for one device and may ask its driver.
const IS_BOUND: u32 = 1 << 6;

/// Where the source register of an instruction is, and what it says of the immediate operand in the
/// upper half: the descriptor of a map (`BPF_PSEUDO_MAP_FD`), or the number of a function of the
/// kernel (`BPF_PSEUDO_KFUNC_CALL`).
const SOURCE_SHIFT: u32 = 12;
const SOURCE_MAP: u64 = 1;
const SOURCE_KERNEL_FUNCTION: u64 = 2;
const OPERAND_SHIFT: u32 = 32;
/// The other bits of an instruction.
const REST: u64 = 0xffff_0fff;

/// A program as it comes from the compiler.
struct Code {
    instructions: &'static [u64],
    references: &'static [Reference],
}

/// An instruction that refers to something outside.
struct Reference {
    index: usize,
    target: Target,
}

enum Target {
    Map(&'static str),
    Function(&'static str),
}

/// What a program is to be for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// Receive queues that may have a socket.
    pub(super) queues: u32,
    /// Whether packets may lie in several buffers.
    pub(super) has_fragments: bool,
    /// The device whose driver is to be asked for more than the bytes of packets.
    pub(super) asks: Option<u32>,
}

/// A program in the kernel, and the map from receive queues to sockets that it uses.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) program: OwnedFd,
    pub(super) sockets: OwnedFd,
}

impl Program {
    /// Loads the program that hands packets to sockets.
    ///
    /// # Errors
    /// When the kernel refuses it, or does not know packets in several buffers, or the driver tells
    /// no more than bytes.
    pub(super) fn load(purpose: Purpose) -> Result<Self, Refusal> {
        let sockets = system::create_socket_map(purpose.queues).map_err(without_log)?;
        let code = if purpose.asks.is_some() { &METADATA } else { &REDIRECT };
        let instructions = complete(code, &sockets).ok_or_else(|| without_log(Errno::NOENT))?;
        let mut flags = if purpose.has_fragments { HAS_FRAGMENTS } else { 0 };
        if purpose.asks.is_some() {
            flags |= IS_BOUND;
        }
        let name = format!("{NAME_PREFIX}redirect");
        let device = purpose.asks.unwrap_or(0);
        let options = LoadOptions { name: &name, flags, device, wants_log: false };
        let program = system::load(&instructions, options).or_else(|_| {
            // Once more, to learn why.
            system::load(&instructions, LoadOptions { wants_log: true, ..options })
        })?;
        Ok(Self { program, sockets })
    }
}

/// The instructions with all that they refer to; nothing when the kernel lacks a function.
fn complete(code: &Code, sockets: &OwnedFd) -> Option<Vec<u64>> {
    let mut instructions = code.instructions.to_vec();
    for Reference { index, target } in code.references {
        let (source, operand) = match *target {
            Target::Map("sockets") => (SOURCE_MAP, sockets.as_fd().as_raw_fd() as u32),
            Target::Map(_) => return None,
            Target::Function(name) => (SOURCE_KERNEL_FUNCTION, kernel_functions::number(name)?),
        };
        let instruction = instructions.get_mut(*index)?;
        *instruction &= REST;
        *instruction |= source << SOURCE_SHIFT | u64::from(operand) << OPERAND_SHIFT;
    }
    Some(instructions)
}

fn without_log(errno: Errno) -> Refusal {
    Refusal { errno, log: String::new() }
}
