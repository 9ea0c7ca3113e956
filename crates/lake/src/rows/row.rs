//! Rows that are declared by their columns, and their conversion to and from Arrow arrays.

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::arrow::datatypes::FieldRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_arrow::ArrayBuilder;
use serde_arrow::schema::{SchemaLike, TracingOptions};
use serde_json::json;

use super::column::Column;

pub(crate) type Fields = Result<Vec<FieldRef>, serde_arrow::Error>;

/// The stored columns of a table or of a part of it.
pub(crate) trait Row: Serialize + DeserializeOwned {
    /// The columns in order.
    fn fields() -> Fields;

    /// Empty columns. Rows are added one by one, because all rows of a batch together take much memory.
    fn builders() -> Result<Vec<ArrayBuilder>, serde_arrow::Error> {
        Ok(vec![ArrayBuilder::from_arrow(&Self::fields()?)?])
    }

    /// Adds a row to the columns.
    fn push(&self, builders: &mut [ArrayBuilder]) -> Result<(), serde_arrow::Error> {
        builders
            .iter_mut()
            .try_for_each(|builder| builder.push(self))
    }

    /// Converts columns to rows; other columns of the batch are left out.
    fn read(batch: &RecordBatch) -> Result<Vec<Self>, serde_arrow::Error> {
        // serde_arrow reads every value of a column that it skips.
        let schema = batch.schema();
        let fields = Self::fields()?;
        let known = fields.iter().map(|field| schema.index_of(field.name()));
        let known: Vec<usize> = known.filter_map(Result::ok).collect();
        let columns = batch.project(&known).expect("indexes of this schema");
        serde_arrow::from_record_batch(&columns)
    }
}

/// The columns of one row, and then those of the other.
impl<A: Row, B: Row> Row for (A, B) {
    fn fields() -> Fields {
        Ok([A::fields()?, B::fields()?].concat())
    }

    fn builders() -> Result<Vec<ArrayBuilder>, serde_arrow::Error> {
        let (mut all, of_b) = (A::builders()?, B::builders()?);
        all.extend(of_b);
        Ok(all)
    }

    fn push(&self, builders: &mut [ArrayBuilder]) -> Result<(), serde_arrow::Error> {
        // Only this type has more than one builder, and it is not a part of itself.
        let (of_a, of_b) = builders.split_at_mut(1);
        self.0.push(of_a)?;
        self.1.push(of_b)
    }

    fn read(batch: &RecordBatch) -> Result<Vec<Self>, serde_arrow::Error> {
        Ok(A::read(batch)?.into_iter().zip(B::read(batch)?).collect())
    }
}

/// The name of a column, if it is a timestamp, and whether it may be null.
pub(super) const fn timestamp<T: Column>(name: &'static str) -> Option<(&'static str, bool)> {
    if T::IS_TIMESTAMP {
        Some((name, T::IS_NULLABLE))
    } else {
        None
    }
}

/// The columns of a row type. Those in `timestamps` become UTC timestamps in microseconds.
pub(super) fn traced<R: DeserializeOwned>(timestamps: &[Option<(&str, bool)>]) -> Fields {
    // Engines of the Hadoop family have no large strings or lists.
    let mut options = TracingOptions::default()
        .strings_as_large_utf8(false)
        .sequence_as_large_list(false);
    for (name, nullable) in timestamps.iter().flatten() {
        let data_type = "Timestamp(Microsecond, Some(\"UTC\"))";
        let field = json!({"name": name, "data_type": data_type, "nullable": nullable});
        options = options.overwrite(*name, field)?;
    }
    Vec::from_type::<R>(options)
}

/// Declares a row type and its lossless conversion to and from a value. Each column is declared
/// once, in the order of the table:
///
/// - `column: Type = field` is a field of the value.
/// - `{ columns } = field: Type` is a field whose own fields are columns of this row. With `{..}`
///   at the end, the fields without a column are not stored and read as their defaults.
/// - `(columns) = field` is a field with several columns; see `Parts`.
/// - `[column: Type] = |value| expression` is computed from the value, and not read.
///
/// A field after `without` has no column. `get` takes it as an argument.
macro_rules! row {
    (
        $(#[$meta:meta])*
        $row:ident for $value:ident $(<$($param:ty),+>)? $(without $left:ident: $left_type:ty)? {
            $(
                $($column:ident: $type:ty = $field:tt)?
                $({
                    $($inner:ident: $inner_type:ty = $inner_field:ident),+ $(,)?
                } = $group:tt: $group_type:ident $({$rest:tt})?)?
                $(($($part:ident: $part_type:ty),+) = $split:ident)?
                $([$computed:ident: $computed_type:ty] = |$of:ident| $expression:expr)?
            ),*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        pub(crate) struct $row {
            $(
                $($column: <$type as $crate::rows::column::Column>::Stored,)?
                $($($inner: <$inner_type as $crate::rows::column::Column>::Stored,)+)?
                $($($part: <$part_type as $crate::rows::column::Column>::Stored,)+)?
                $($computed: <$computed_type as $crate::rows::column::Column>::Stored,)?
            )*
        }

        impl $crate::rows::row::Row for $row {
            fn fields() -> $crate::rows::row::Fields {
                use $crate::rows::row::{timestamp, traced};
                traced::<Self>(&[$(
                    $(timestamp::<$type>(stringify!($column)),)?
                    $($(timestamp::<$inner_type>(stringify!($inner)),)+)?
                    $($(timestamp::<$part_type>(stringify!($part)),)+)?
                    $(timestamp::<$computed_type>(stringify!($computed)),)?
                )*])
            }
        }

        impl $row {
            fn put(
                value: &$value $(<$($param),+>)?,
            ) -> Result<Self, $crate::rows::column::ColumnError> {
                use $crate::rows::column;
                let $value {
                    $(
                        $($field: $column,)?
                        $($group: $group_type { $($inner_field: $inner,)+ $($rest)? },)?
                        $($split,)?
                    )*
                    $($left: _,)?
                } = value;
                $($(let ($($part,)+) = column::Parts::split($split);)?)*
                Ok(Self { $(
                    $($column: column::put_column::<$type>(stringify!($column), $column)?,)?
                    $($(
                        $inner: column::put_column::<$inner_type>(stringify!($inner), $inner)?,
                    )+)?
                    $($($part: column::put_column::<$part_type>(stringify!($part), &$part)?,)+)?
                    $($computed: {
                        let $of = value;
                        column::put_column::<$computed_type>(stringify!($computed), &$expression)?
                    },)?
                )* })
            }

            fn get(
                self $(, $left: $left_type)?
            ) -> Result<$value $(<$($param),+>)?, $crate::rows::column::ColumnError> {
                use $crate::rows::column;
                Ok($value {
                    $(
                        $($field: column::get_column::<$type>(
                            stringify!($column),
                            self.$column,
                        )?,)?
                        $($group: $group_type {
                            $($inner_field: column::get_column::<$inner_type>(
                                stringify!($inner),
                                self.$inner,
                            )?,)+
                            $($rest Default::default())?
                        },)?
                        $($split: column::join_columns(
                            &[$(stringify!($part)),+],
                            ($(column::get_column::<$part_type>(
                                stringify!($part),
                                self.$part,
                            )?,)+),
                        )?,)?
                    )*
                    $($left,)?
                })
            }
        }
    };
}

/// Declares a row type as [`row`] does, whose value is also a column of other rows.
macro_rules! columns {
    (
        $(#[$meta:meta])*
        $row:ident for $value:ident $(<$($param:ty),+>)? { $($body:tt)* }
    ) => {
        $crate::rows::row::row! { $(#[$meta])* $row for $value $(<$($param),+>)? { $($body)* } }

        impl $crate::rows::column::Column for $value $(<$($param),+>)? {
            type Stored = $row;

            fn put(&self) -> Result<$row, $crate::rows::column::ColumnError> {
                $row::put(self)
            }

            fn get(stored: $row) -> Result<Self, $crate::rows::column::ColumnError> {
                stored.get()
            }
        }
    };
}

pub(super) use {columns, row};
