//! Rows of Parquet. Only the columns of a bill are read, and only after their types are checked.

use std::sync::Arc;

use ebb_model::text_file::bad_lines::shown;
use jiff::Timestamp;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::{Type, TypePtr};

use super::{FileProblem, RowSink};
use crate::cost_export::amount::Amount;
use crate::cost_export::charge::{Cell, ExportRow};
use crate::cost_export::columns::{ColumnKind, ExportColumn, ExportColumns};

/// The most bytes of a column in a row group after decompression. Exports have less than a tenth.
const MAX_BLOCK_BYTES: i64 = 1 << 30;

/// Reads all rows.
pub(in crate::cost_export) fn read<R: ChunkReader + 'static>(
    source: R,
    sink: &mut RowSink<'_>,
) -> Result<(), FileProblem> {
    let file = SerializedFileReader::new(source)?;
    let root = file
        .metadata()
        .file_metadata()
        .schema_descr()
        .root_schema_ptr();
    let fields = root.get_fields();
    let columns = ExportColumns::find(fields.iter().map(|field| field.name()))?;
    sink.check_tags(&columns);
    let all = ExportColumn::ALL.iter().copied();
    let used = all.filter(|column| match column {
        ExportColumn::Tags => !sink.tags.is_empty(),
        ExportColumn::LineItem | ExportColumn::Interval => sink.repeated.is_some(),
        _ => true,
    });
    let mut projected: Vec<(usize, ExportColumn)> = Vec::new();
    for column in used {
        let Some(at) = columns
            .at(column)
            .filter(|at| is_read(column, &fields[*at]))
        else {
            continue;
        };
        check_type(column, column.name(columns.form), &fields[at])?;
        projected.push((at, column));
    }
    projected.sort_by_key(|(at, _)| *at);
    check_sizes(file.metadata(), &projected, fields)?;
    let chosen = projected
        .iter()
        .map(|(at, _)| Arc::clone(&fields[*at]))
        .collect();
    let schema = Type::group_type_builder(root.name())
        .with_fields(chosen)
        .build()?;
    let mut positions = vec![None; ExportColumn::ALL.len()];
    for (position, (at, column)) in projected.iter().enumerate() {
        positions[*column as usize] = Some((position, time_unit(&fields[*at])));
    }
    for (number, row) in (1..).zip(RowIter::from_file(Some(schema), &file)?) {
        let row = row?;
        let values = row.get_column_iter().map(|(_, value)| value);
        let row = ParquetRow {
            values: values.collect(),
            positions: &positions,
        };
        sink.add(&row, columns.form, number)?;
    }
    Ok(())
}

/// The position of a column in a row, and its unit if it is a time in nanoseconds.
type Position = Option<(usize, Option<Nanoseconds>)>;

/// A time in nanoseconds, which the rows of the library have as a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Nanoseconds;

struct ParquetRow<'a> {
    values: Vec<&'a Field>,
    positions: &'a [Position],
}

impl ExportRow for ParquetRow<'_> {
    fn cell(&self, column: ExportColumn) -> Cell<'_> {
        let Some((at, nanoseconds)) = self.positions[column as usize] else {
            return Cell::Absent;
        };
        match (self.values.get(at), nanoseconds) {
            (Some(Field::Long(nanos)), Some(Nanoseconds)) => {
                Cell::Time(Timestamp::from_nanosecond((*nanos).into()).ok())
            }
            (Some(field), _) => cell(field),
            (None, _) => Cell::Absent,
        }
    }

    fn hash_of_all(&self) -> Option<u64> {
        None
    }
}

fn cell(field: &Field) -> Cell<'_> {
    match field {
        Field::Null => Cell::Absent,
        Field::Str(text) => Cell::Text(text),
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data()).map_or(Cell::Other, Cell::Text),
        Field::Double(dollars) => Cell::Amount(Amount::from_f64(*dollars)),
        Field::Float(dollars) => Cell::Amount(Amount::from_f64(f64::from(*dollars))),
        Field::Byte(dollars) => Cell::Amount(Amount::from_scaled((*dollars).into(), 0)),
        Field::Short(dollars) => Cell::Amount(Amount::from_scaled((*dollars).into(), 0)),
        Field::Int(dollars) => Cell::Amount(Amount::from_scaled((*dollars).into(), 0)),
        Field::Long(dollars) => Cell::Amount(Amount::from_scaled((*dollars).into(), 0)),
        Field::Decimal(decimal) => Cell::Amount(of_decimal(decimal.data(), decimal.scale())),
        Field::Date(days) => Cell::Time(Timestamp::from_second(i64::from(*days) * 86_400).ok()),
        Field::TimestampMillis(millis) => Cell::Time(Timestamp::from_millisecond(*millis).ok()),
        Field::TimestampMicros(micros) => Cell::Time(Timestamp::from_microsecond(*micros).ok()),
        Field::MapInternal(map) => {
            let pairs = map
                .entries()
                .iter()
                .filter_map(|(key, value)| match (key, value) {
                    (Field::Str(key), Field::Str(value)) => Some((key.as_str(), value.as_str())),
                    _ => None,
                });
            Cell::Tags(pairs.collect())
        }
        _ => Cell::Other,
    }
}

/// A big-endian number in two's complement. `None` if it has more than 16 bytes.
fn of_decimal(bytes: &[u8], scale: i32) -> Option<Amount> {
    let is_negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let mut whole = if is_negative { [0xff; 16] } else { [0; 16] };
    let start = whole.len().checked_sub(bytes.len())?;
    whole[start..].copy_from_slice(bytes);
    Amount::from_scaled(i128::from_be_bytes(whole), scale)
}

/// The library stops the program at a type that it cannot convert, so each type is checked first.
fn check_type(
    column: ExportColumn,
    name: &'static str,
    field: &TypePtr,
) -> Result<(), FileProblem> {
    let kind = column.kind();
    let (expected, is_right) = match kind {
        ColumnKind::Text => ("text", is_text(field)),
        ColumnKind::Amount => ("a number or text", is_text(field) || is_amount(field)),
        ColumnKind::Time => ("a time or text", is_text(field) || is_time(field)),
        ColumnKind::Tags => ("a map of text, or text", is_text(field) || is_map(field)),
    };
    match is_right {
        true => Ok(()),
        false => Err(FileProblem::Type {
            column: name,
            expected,
            found: type_name(field),
        }),
    }
}

fn type_name(field: &Type) -> String {
    match field.is_primitive() {
        true => {
            let converted = field.get_basic_info().converted_type();
            shown(&format!("{} {converted}", field.get_physical_type()))
        }
        false => "a group".to_owned(),
    }
}

/// A single value, not a list of values.
fn primitive(field: &Type) -> Option<(PhysicalType, ConvertedType)> {
    let info = field.get_basic_info();
    let is_repeated =
        info.has_repetition() && info.repetition() == parquet::basic::Repetition::REPEATED;
    (field.is_primitive() && !is_repeated)
        .then(|| (field.get_physical_type(), info.converted_type()))
}

/// Whether a column has values of use. The program that wrote the file did not know the type of a
/// column whose values are all null. Some programs write accounts as numbers. Ids only distinguish rows.
fn is_read(column: ExportColumn, field: &Type) -> bool {
    let is_null = field.get_basic_info().logical_type_ref() == Some(&LogicalType::Unknown);
    let may_differ = matches!(
        column,
        ExportColumn::Account | ExportColumn::LineItem | ExportColumn::Interval
    );
    !is_null && (!may_differ || is_text(field))
}

fn is_text(field: &Type) -> bool {
    use ConvertedType as C;
    primitive(field).is_some_and(|(physical, converted)| {
        physical == PhysicalType::BYTE_ARRAY
            && matches!(converted, C::UTF8 | C::ENUM | C::JSON | C::NONE)
    })
}

fn is_amount(field: &Type) -> bool {
    use ConvertedType as C;
    use PhysicalType as P;
    let is_known = primitive(field).is_some_and(|(physical, converted)| match physical {
        P::DOUBLE | P::FLOAT => true,
        P::INT32 | P::INT64 => matches!(
            converted,
            C::DECIMAL | C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64
        ),
        P::BYTE_ARRAY | P::FIXED_LEN_BYTE_ARRAY => converted == C::DECIMAL,
        _ => false,
    });
    is_known && time_unit(field).is_none()
}

fn is_time(field: &Type) -> bool {
    use ConvertedType as C;
    use PhysicalType as P;
    let is_known = primitive(field).is_some_and(|(physical, converted)| match physical {
        P::INT96 => true,
        P::INT64 => matches!(converted, C::TIMESTAMP_MILLIS | C::TIMESTAMP_MICROS),
        P::INT32 => converted == C::DATE,
        _ => false,
    });
    is_known || time_unit(field).is_some()
}

fn time_unit(field: &Type) -> Option<Nanoseconds> {
    let (physical, converted) = primitive(field)?;
    let logical = field.get_basic_info().logical_type_ref()?;
    let is_nanos = matches!(logical, LogicalType::Timestamp(time) if time.unit == TimeUnit::NANOS);
    let is_plain = physical == PhysicalType::INT64 && converted == ConvertedType::NONE;
    (is_nanos && is_plain).then_some(Nanoseconds)
}

/// A map as Parquet defines it: one repeated group of a key and a value, both text.
fn is_map(field: &Type) -> bool {
    let info = field.get_basic_info();
    let is_map = matches!(
        info.converted_type(),
        ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE
    );
    let is_map = is_map || info.logical_type_ref() == Some(&LogicalType::Map);
    if !field.is_group() || !is_map {
        return false;
    }
    let [entries] = field.get_fields() else {
        return false;
    };
    let info = entries.get_basic_info();
    let is_repeated =
        info.has_repetition() && info.repetition() == parquet::basic::Repetition::REPEATED;
    let [key, value] = (match entries.is_group() && is_repeated {
        true => entries.get_fields(),
        false => return false,
    }) else {
        return false;
    };
    is_text(key) && is_text(value)
}

/// Refuses a file that claims blocks of a size that no export has.
fn check_sizes(
    metadata: &ParquetMetaData,
    projected: &[(usize, ExportColumn)],
    fields: &[TypePtr],
) -> Result<(), FileProblem> {
    let names: Vec<&str> = projected.iter().map(|(at, _)| fields[*at].name()).collect();
    let blocks = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns());
    let mut large = blocks.filter(|block| {
        let first = block.column_path().parts().first();
        let is_read = first.is_some_and(|first| names.contains(&first.as_str()));
        is_read && block.uncompressed_size() > MAX_BLOCK_BYTES
    });
    match large.next() {
        None => Ok(()),
        Some(block) => Err(FileProblem::LargeBlock {
            column: block.column_path().string(),
            bytes: block.uncompressed_size(),
            most: MAX_BLOCK_BYTES,
        }),
    }
}
