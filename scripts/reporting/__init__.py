# SPDX-License-Identifier: Apache-2.0
"""What the scripts that read results share."""
