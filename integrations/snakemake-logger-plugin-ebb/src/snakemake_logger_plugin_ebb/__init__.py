"""Sends the rule of each local job of Snakemake to the probe of Ebb on this node.

A logger plugin is the only kind of plugin that Snakemake loads next to any executor. The log itself
has no process numbers, so it cannot show which process belongs to which job. This plugin notices
each process that a job starts, and sends its number with the rule, the wildcards and the attempt.
"""

from dataclasses import dataclass, field
from logging import LogRecord
from typing import Callable, Optional

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

from .jobs import watch_processes
from .sender import Sender

__all__ = ["LogHandler", "LogHandlerSettings"]


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """Settings on the command line and in profiles."""

    socket: str = field(
        default="/run/ebb/label.sock",
        metadata={"help": "Path of the label socket of the probe (label_socket in probe.toml)"},
    )


class LogHandler(LogHandlerBase):
    """Watches the processes of jobs until Snakemake ends. It handles no log record."""

    def __post_init__(self) -> None:
        self._sender: Optional[Sender] = None
        self._stop: Callable[[], None] = lambda: None
        if self.common_settings.dryrun:
            return
        settings = self.settings
        if not isinstance(settings, LogHandlerSettings):
            settings = LogHandlerSettings()
        self._sender = Sender(settings.socket)
        self._stop = watch_processes(self._sender.send)

    def emit(self, record: LogRecord) -> None:
        """Ignores the record."""

    def close(self) -> None:
        """Sends what waits, for at most two seconds."""
        self._stop()
        if self._sender is not None:
            self._sender.close()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        return False

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return False

    @property
    def has_formatter(self) -> bool:
        return False

    @property
    def needs_rulegraph(self) -> bool:
        return False
