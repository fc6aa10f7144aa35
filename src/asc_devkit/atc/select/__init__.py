"""The select stage: ONNX operators become GE operators with a dtype, an engine, a device format and a fused group.

Order: ``ops.convert.to_ge`` -> ``precision.apply`` -> ``formats.apply`` -> ``groups.collapse``. Called by ``atc.stages``.
"""
