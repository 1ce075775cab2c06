"""TensorBoard files from a run's records."""

from pathlib import Path

from sidequest.records import IDENTITY, read_table

CURVES = {
    "episodes": ("return", "length", "p_X", "med_X", "rmed_X", "realised_rate"),
    "evaluations": ("return", "length"),
}


def export(folder: Path) -> None:
    """Writes `tensorboard/` into the run's folder; steps are environment frames."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "TensorBoard files need an extra: pip install 'sidequest[tensorboard]'"
        ) from error
    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for table, columns in CURVES.items():
            for row in read_table(folder, table).iter_rows(named=True):
                for column in columns:
                    if row.get(column) is not None:
                        writer.add_scalar(f"{table}/{column}", row[column], row["frames"])
        for row in read_table(folder, "learning").iter_rows(named=True):
            for column, value in row.items():
                if column not in (*IDENTITY, "frames") and value is not None:
                    writer.add_scalar(f"learning/{column}", value, row["frames"])
        for row in read_table(folder, "bandits").iter_rows(named=True):
            name = f"bandits/{row['bandit']}/{row['arm']:g}"
            writer.add_scalar(name, row["probability"], row["frames"])
