//! Meters of a switch (OpenFlow 1.5, section 7.3.4.4), each of which is a meter of the datapath
//! under another number.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use dpif::datapath::{Datapath, MeterError};
use dpif::meter::{BandConfig, MAX_BANDS, MAX_METERS, MeterConfig as DatapathConfig};
use netdev::clock;

use crate::openflow::error::OfError;
use crate::openflow::message::{
    BandType, MeterCommand, MeterConfig, MeterFeatures, MeterMod, meter_flag, meter_id,
};

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// How it is configured; bands that said no burst size have one.
    pub config: MeterConfig,
    /// Its number on the datapath.
    pub number: u32,
    /// When it was added, by the switch's clock.
    pub created: Duration,
}

/// The meters of a switch. The control thread changes them, translation reads them.
#[derive(Debug, Default)]
pub struct Meters {
    meters: RwLock<BTreeMap<u32, Arc<Meter>>>,
}

impl Meters {
    /// The meter `id`.
    pub fn get(&self, id: u32) -> Option<Arc<Meter>> {
        self.meters.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The number on the datapath of meter `id`.
    pub fn number(&self, id: u32) -> Option<u32> {
        self.get(id).map(|meter| meter.number)
    }

    /// All meters by id.
    pub fn all(&self) -> Vec<Arc<Meter>> {
        self.meters.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds, changes or deletes meters. Returns the ids of those that are gone, whose rules are to
    /// go as well.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn modify(
        &self,
        meter_mod: &MeterMod,
        datapath: &mut Datapath,
    ) -> Result<Vec<u32>, OfError> {
        let id = meter_mod.meter.meter_id;
        match meter_mod.command {
            MeterCommand::Add => {
                check_limits(&meter_mod.meter)?;
                if self.get(id).is_some() {
                    return Err(OfError::MeterModMeterExists);
                }
                let mut config = meter_mod.meter.clone();
                let wanted = datapath_config(&mut config)?;
                let number = datapath.add_meter(wanted).map_err(meter_error)?;
                self.insert(Meter { config, number, created: clock::now() });
                Ok(Vec::new())
            }
            MeterCommand::Modify => {
                check_limits(&meter_mod.meter)?;
                let old = self.get(id).ok_or(OfError::MeterModUnknownMeter)?;
                let mut config = meter_mod.meter.clone();
                let wanted = datapath_config(&mut config)?;
                datapath.set_meter(old.number, wanted).map_err(meter_error)?;
                self.insert(Meter { config, ..Meter::clone(&old) });
                Ok(Vec::new())
            }
            MeterCommand::Delete => Ok(self.delete(id, datapath)),
        }
    }

    fn insert(&self, meter: Meter) {
        let mut meters = self.meters.write().unwrap_or_else(PoisonError::into_inner);
        meters.insert(meter.config.meter_id, Arc::new(meter));
    }

    /// Deletes a meter, or all, from the switch and the datapath. Returns the ids of those that
    /// there were.
    pub fn delete(&self, id: u32, datapath: &mut Datapath) -> Vec<u32> {
        let mut meters = self.meters.write().unwrap_or_else(PoisonError::into_inner);
        let gone = match id {
            meter_id::ALL => std::mem::take(&mut *meters).into_values().collect(),
            id => Vec::from_iter(meters.remove(&id)),
        };
        gone.iter().for_each(|meter| {
            datapath.remove_meter(meter.number);
        });
        gone.iter().map(|meter| meter.config.meter_id).collect()
    }
}

/// What meters can do.
pub const FEATURES: MeterFeatures = MeterFeatures {
    max_meters: MAX_METERS,
    band_types: 1 << BandType::Drop as u32,
    capabilities: (meter_flag::KBPS | meter_flag::PKTPS | meter_flag::BURST | meter_flag::STATS)
        as u32,
    max_bands: MAX_BANDS as u8,
    max_color: 0,
};

fn check_limits(config: &MeterConfig) -> Result<(), OfError> {
    match config.meter_id {
        1..=meter_id::MAX | meter_id::SLOWPATH | meter_id::CONTROLLER => {}
        _ => return Err(OfError::MeterModInvalidMeter),
    }
    match config.bands.len() > MAX_BANDS {
        true => Err(OfError::MeterModOutOfBands),
        false => Ok(()),
    }
}

/// What the datapath is to do for a meter. Bands without a burst size get one.
fn datapath_config(config: &mut MeterConfig) -> Result<DatapathConfig, OfError> {
    let rate = config.flags & (meter_flag::KBPS | meter_flag::PKTPS);
    if rate != meter_flag::KBPS && rate != meter_flag::PKTPS {
        return Err(OfError::MeterModBadFlags);
    }
    if config.bands.is_empty() {
        return Err(OfError::MeterModOutOfBands);
    }
    if config.bands.iter().any(|band| band.rate == 0) {
        return Err(OfError::MeterModBadRate);
    }
    if u32::from(config.flags) & !FEATURES.capabilities != 0 {
        return Err(OfError::MeterModBadFlags);
    }
    if config.bands.iter().any(|band| band.band_type != BandType::Drop) {
        return Err(OfError::MeterModBadBand);
    }
    for band in config.bands.iter_mut().filter(|band| band.burst_size == 0) {
        band.burst_size = band.rate;
    }
    let bands = config.bands.iter();
    let bands = bands.map(|band| BandConfig { rate: band.rate, burst: band.burst_size }).collect();
    Ok(DatapathConfig { in_packets: rate == meter_flag::PKTPS, bands })
}

fn meter_error(error: MeterError) -> OfError {
    match error {
        MeterError::Number { .. } | MeterError::Full => OfError::MeterModOutOfMeters,
        MeterError::Bands { .. } => OfError::MeterModOutOfBands,
    }
}
