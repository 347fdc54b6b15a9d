# SPDX-License-Identifier: MIT
"""``tf.linalg``: matrices in the last two axes.

Decompositions and solutions are float32 (float64 on the host); each matrix is computed
in double precision and rounded once.
"""

from ipu._text.exports import export, offered
from ipu.tf._ops.clip import global_norm as global_norm
from ipu.tf._ops.creation import eye as eye
from ipu.tf._ops.diagonals import (
    adjoint as adjoint,
    band_part as band_part,
    diag as diag,
    diag_part as diag_part,
    matrix_transpose as matrix_transpose,
    set_diag as set_diag,
    tensor_diag as tensor_diag,
    tensor_diag_part as tensor_diag_part,
    trace as trace,
)
from ipu.tf._ops.matrix_functions import (
    expm as expm,
    lstsq as lstsq,
    lu as lu,
    lu_matrix_inverse as lu_matrix_inverse,
    lu_reconstruct as lu_reconstruct,
    lu_solve as lu_solve,
)
from ipu.tf._ops.normalizations import l2_normalize as l2_normalize
from ipu.tf._ops.products import (
    einsum as einsum,
    matmul as matmul,
    matvec as matvec,
    tensordot as tensordot,
)
from ipu.tf._ops.spectral import (
    eigh as eigh,
    eigvalsh as eigvalsh,
    matrix_rank as matrix_rank,
    pinv as pinv,
    qr as qr,
    svd as svd,
)
from ipu.tf._ops.systems import (
    cholesky as cholesky,
    cholesky_solve as cholesky_solve,
    cross as cross,
    det as det,
    inv as inv,
    logdet as logdet,
    norm as norm,
    normalize as normalize,
    slogdet as slogdet,
    solve as solve,
    triangular_solve as triangular_solve,
)

export(__name__, offered(__name__))
