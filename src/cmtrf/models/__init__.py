"""What remains after a fit: immutable arrays that answer by code; estimators turn ids into codes and back."""
